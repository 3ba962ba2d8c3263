"""What becomes of a run at its end: the comparison of ``--quant-compare``, and backends that must be used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.errors import QuantError
from pytest_quant.history import open_store
from pytest_quant.history.baselines.file import NAME
from pytest_quant.plugin.compare_with_base import compare_run, regression
from pytest_quant.plugin.run_end import faults_of_required
from pytest_quant.record import Record
from pytest_quant.report.comparison import ComparedRuns
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
    pytester: pytest.Pytester, scratch: ScratchRepository, records: list[Record], *args: str, all_ran: bool = True
) -> ComparedRuns:
    run = replace(RUN, id="head", commit=scratch.git("rev-parse", "HEAD"))
    return compare_run(pytester.parseconfig("--quant-compare", *args), run, records, all_ran=all_ran)


def test_nothing_changed_lets_no_run_fail(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """The base is named."""
    compared = _compare(pytester, scratch, [a_pass(), _OTHER])
    fork = scratch.git("rev-parse", "main")
    assert (compared.about[0], regression(compared)) == (f"base {fork[:12]}: merge base with main", "")
    assert compared.comparison.base.checks == 2


def test_a_regression_lets_the_run_fail(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """It counts the rows."""
    assert " rows regressed" in regression(_compare(pytester, scratch, [a_record(), _OTHER]))


def test_a_removed_test_lets_the_run_fail(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """Of a run of all tests."""
    assert "1 tests of the base are gone" in regression(_compare(pytester, scratch, [a_pass()]))


def test_a_test_that_did_not_run_is_not_removed(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """Where not all tests ran, as the line of the base says."""
    compared = _compare(pytester, scratch, [a_pass()], all_ran=False)
    assert regression(compared) == ""
    assert compared.about[0].endswith("not every test ran, so that none counts as removed")


def test_an_accepted_removal_is_no_regression(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """As the reviewed file says."""
    (scratch.path / NAME).write_text(
        'schema = 1\n[[baseline]]\ntest = "tests/test_digits.py::test_int8"\nmodel = "digits"\nbackend = "trt"\n'
        'precision = "int8"\nscheme = "static"\nbatch_size = 1\nmetric = "top1"\nreason = "r"\ncommit = "c"\n'
        "accepted_at = 2026-01-01T00:00:00Z\nremoved = true\n"
    )
    assert regression(_compare(pytester, scratch, [a_pass()])) == ""


def test_no_base_lets_the_run_fail_under_strict_only(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """A new project has nothing to compare with."""
    compared = _compare(pytester, scratch, [a_pass()], "--quant-history", "other.db")
    assert regression(compared) == ""
    assert compared.about[0].startswith("no base: there are no records of")
    assert regression(_compare(pytester, scratch, [a_pass()], "--quant-history", "other.db", "--quant-strict"))


def test_a_base_can_be_named(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """A revision that git does not know is an error, for it was asked for."""
    main = scratch.git("rev-parse", "main")
    compared = _compare(pytester, scratch, [a_pass(), _OTHER], "--quant-compare-base", "main")
    assert compared.about[0] == f"base {main[:12]}: main"
    with pytest.raises(QuantError, match="git knows no such commit"):
        _compare(pytester, scratch, [a_pass()], "--quant-compare-base", "no-such")


def test_a_run_is_not_compared_with_itself(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """The base is the commit that is tested, whose only records are those of this run."""
    store = open_store(scratch.path / ".quant" / "history.db")
    store.append(replace(RUN, id="head", commit=scratch.git("rev-parse", "HEAD")), [a_pass()])
    compared = _compare(pytester, scratch, [a_pass()], "--quant-compare-base", "HEAD")
    assert compared.comparison.base.checks == 0


def test_without_a_history_nothing_can_be_compared(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """Which is an error."""
    with pytest.raises(QuantError, match="the history is turned off"):
        _compare(pytester, scratch, [a_pass()], "--quant-no-history")


_UNUSED = "--quant-require: no test used 'trt'"


@pytest.mark.parametrize(("all_ran", "told"), [(True, [_UNUSED]), (False, [])])
def test_a_backend_that_no_test_used_is_a_fault_of_a_whole_run(all_ran: bool, told: list[str]) -> None:
    """A part of a suite may have no test for it."""
    assert faults_of_required(["ort", "trt"], {"ort"}, all_ran=all_ran) == told


@pytest.mark.parametrize("all_ran", [True, False])
def test_an_unknown_name_is_a_fault_of_any_run(all_ran: bool) -> None:
    """It is told once, with the nearest name."""
    (line,) = faults_of_required(["otr"], {"ort"}, all_ran=all_ran)
    assert line.startswith("--quant-require: unknown backend 'otr'; did you mean 'ort'?")
