"""``--quant-compare`` compares the records of a run with the base, and says why the run fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.history import open_store
from pytest_quant.history.baselines.file import NAME
from pytest_quant.plugin.compare_with_base import Compared, compare_run
from pytest_quant.plugin.settings import settings_of
from pytest_quant.record import Record
from tests.support.repository import ScratchRepository, make_repository, without_ci
from tests.unit.record.examples import RUN, a_check, a_pass, a_record

_OTHER = a_record(a_check(backend="trt"))


@pytest.fixture
def scratch(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """A project whose ``main`` has records of two series, on a branch of one more commit."""
    without_ci(monkeypatch)
    made = make_repository(pytester.path)
    commit = made.commit("1")
    store = open_store(made.path / ".quant" / "history.db")
    store.append(replace(RUN, id="base", commit=commit), [a_pass(), _OTHER])
    made.git("checkout", "-b", "topic")
    made.commit("2")
    return made


def _compare(
    pytester: pytest.Pytester, scratch: ScratchRepository, records: list[Record], *args: str, whole: bool = True
) -> Compared:
    config = pytester.parseconfig("--quant-compare", *args)
    run = replace(RUN, id="head", commit=scratch.git("rev-parse", "HEAD"))
    return compare_run(config, settings_of(config), run, records, whole=whole)


def test_nothing_changed_is_no_fault(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """The base is told."""
    found = _compare(pytester, scratch, [a_pass(), _OTHER])
    fork = scratch.git("rev-parse", "main")
    assert (found.base, found.fault) == (f"base {fork[:12]}: merge base with main", "")
    assert found.comparison is not None
    assert found.comparison.base.checks == 2


def test_a_regression_is_a_fault(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """It counts the rows."""
    found = _compare(pytester, scratch, [a_record(), _OTHER])
    assert found.comparison is not None
    assert " rows regressed" in found.fault


def test_a_removed_test_is_a_fault(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """Of a run that asked for all tests and came to their end."""
    assert "1 tests of the base are gone" in _compare(pytester, scratch, [a_pass()]).fault


@pytest.mark.parametrize(
    "args", [("-k", "x"), ("-m", "x"), ("sub",), ("--deselect", "x"), ("--ignore", "x"), ("--lf",)]
)
def test_a_test_that_was_left_out_is_not_removed(
    pytester: pytest.Pytester, scratch: ScratchRepository, args: tuple[str, ...]
) -> None:
    """The command line left tests out, and the line of the base says so."""
    found = _compare(pytester, scratch, [a_pass()], *args)
    assert found.fault == ""
    assert found.base.endswith("not every test ran, so that none counts as removed")


def test_a_run_that_ended_early_removed_nothing(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """Under -x the tests after the first failure did not run."""
    assert _compare(pytester, scratch, [a_pass()], whole=False).fault == ""


def test_an_accepted_removal_is_no_fault(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """As the reviewed file says."""
    (scratch.path / NAME).write_text(
        'schema = 1\n[[baseline]]\ntest = "tests/test_digits.py::test_int8"\nmodel = "digits"\nbackend = "trt"\n'
        'precision = "int8"\nscheme = "static"\nbatch_size = 1\nmetric = "top1"\nreason = "r"\ncommit = "c"\n'
        "accepted_at = 2026-01-01T00:00:00Z\nremoved = true\n"
    )
    assert _compare(pytester, scratch, [a_pass()]).fault == ""


def test_no_base_is_a_fault_under_strict_only(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """A new project has nothing to compare with."""
    found = _compare(pytester, scratch, [a_pass()], "--quant-history", "other.db")
    assert found.fault == ""
    assert found.base.startswith("no base: there are no records of")
    assert _compare(pytester, scratch, [a_pass()], "--quant-history", "other.db", "--quant-strict").fault


def test_a_base_can_be_named(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """A revision that git does not know is a fault, for it was asked for."""
    main = scratch.git("rev-parse", "main")
    found = _compare(pytester, scratch, [a_pass(), _OTHER], "--quant-compare-base", "main")
    assert found.base == f"base {main[:12]}: main"
    found = _compare(pytester, scratch, [a_pass()], "--quant-compare-base", "no-such")
    assert found.comparison is None
    assert "git knows no such commit" in found.fault


def test_a_run_is_not_compared_with_itself(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """The base is the commit that is tested, whose only records are those of this run."""
    store = open_store(scratch.path / ".quant" / "history.db")
    store.append(replace(RUN, id="head", commit=scratch.git("rev-parse", "HEAD")), [a_pass()])
    found = _compare(pytester, scratch, [a_pass()], "--quant-compare-base", "HEAD")
    assert found.comparison is not None
    assert found.comparison.base.checks == 0


def test_without_a_history_the_question_cannot_be_answered(
    pytester: pytest.Pytester, scratch: ScratchRepository
) -> None:
    """Which is a fault."""
    assert "the history is turned off" in _compare(pytester, scratch, [a_pass()], "--quant-no-history").fault
