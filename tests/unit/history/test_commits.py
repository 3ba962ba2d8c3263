"""A run that has just ended is compared with its base; `tests/unit/cli/test_compare.py` names two sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.history import open_store
from pytest_quant.history.commits import compare_records, compare_run, find_sides
from pytest_quant.history.compare.comparison import Comparison
from pytest_quant.report.comparison_text import fault, verdict
from pytest_quant.spec import SeriesKey
from tests.support.repository import ScratchRepository
from tests.unit.record.examples import RUN, a_check, a_pass, a_record

_OTHER = a_record(a_check(backend="trt"))

Compare = Callable[..., Comparison]


@pytest.fixture
def compare(scratch: ScratchRepository) -> Compare:
    """Compares a run of the head with a history that has records of two series of ``main``."""
    store = open_store(scratch.path / ".quant" / "history.db")
    store.append(replace(RUN, id="base", commit=scratch.git("rev-parse", "main")), [a_pass(), _OTHER])

    def run(*records: object, base: str | None = None, strict: bool = False, all_ran: bool = True) -> Comparison:
        head = replace(RUN, id="head", commit=scratch.git("rev-parse", "HEAD"))
        return compare_run(store, scratch.path, head, records, base, strict=strict, all_ran=all_ran)  # type: ignore[arg-type]

    return run


def test_a_run_is_compared_with_its_merge_base(scratch: ScratchRepository, compare: Compare) -> None:
    """Which is named; what lets the run fail is counted, and a base can be named."""
    result = compare(a_pass(), _OTHER)
    main = scratch.git("rev-parse", "main")
    assert (result.about, fault(result)) == ((f"base {main[:12]}: merge base with main",), "")
    assert result.base.checks == 2
    assert " rows regressed" in fault(compare(a_record(), _OTHER))
    assert compare(a_pass(), _OTHER, base="main").about == (f"base {main[:12]}: main",)
    with pytest.raises(UsageError, match="git knows no such commit"):
        compare(a_pass(), base="no-such")


def test_a_removed_test_lets_the_run_fail(compare: Compare) -> None:
    """Where all tests ran; else it is counted, and ignored."""
    assert "1 test of the base gone; if that is meant, for each: pytest-quant accept --removed " in fault(
        compare(a_pass())
    )
    part = compare(a_pass(), all_ran=False)
    assert fault(part) == ""
    assert "1 test not run here" in verdict(part)


@pytest.mark.parametrize("whole", [True, False])
def test_a_test_under_two_names_is_told_as_the_command_tells_it(
    scratch: ScratchRepository, compare: Compare, whole: bool
) -> None:
    """As where a parameter names the machine: another run of this commit has the name of the base, so it is no new one.

    `pytest-quant compare` sees the records of both runs at once.
    """
    store, commit = open_store(scratch.path / ".quant" / "history.db"), scratch.git("rev-parse", "HEAD")
    store.append(replace(RUN, id="other machine", commit=commit), [a_pass(), _OTHER])
    key = SeriesKey.parse(a_pass().series)
    renamed = replace(a_pass(), series=key._replace(test=f"{key.test}[gpu]").text)
    of_run = compare(renamed, _OTHER, all_ran=whole)
    store.append(replace(RUN, id="head", commit=commit), [renamed, _OTHER])
    sides = find_sides(store, None, None, scratch.path)
    of_command = compare_records(store, scratch.path, *sides, full_suite=whole)
    for result in (of_run, of_command):
        assert [each.series for each in result.added] == [renamed.series]
        assert (result.renamed, result.removed) == ((), ())


def test_a_run_is_not_compared_with_itself(scratch: ScratchRepository, compare: Compare) -> None:
    """The base is the commit that is tested, whose only records are those of this run; no base fails under strict."""
    store = open_store(scratch.path / ".quant" / "history.db")
    store.append(replace(RUN, id="head", commit=scratch.git("rev-parse", "HEAD")), [a_pass()])
    result = compare(a_pass(), base="HEAD")
    assert (result.base.checks, fault(result)) == (0, "")
    assert "--quant-strict is set" in fault(compare(a_pass(), base="HEAD", strict=True))
