"""The exit code of a comparison."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.history.compare import Comparison, compare, exit_code, unaccepted
from pytest_quant.history.rows import StoredCheck
from tests.unit.history.compare.launched import answered, answers, key, launch, launches, record_of, timed

_A, _B = "tests/test_a.py::test_a", "tests/test_b.py::test_b"
_OTHER = replace(record_of(_B), model="other")


def _head(*names: str, wrong: int = 0) -> list[StoredCheck]:
    records = {_A: answered(record_of(_A), answers(range(wrong))), _B: _OTHER}
    return launch(*(records[name] for name in names), commit="head")


_BASE = launch(record_of(_A), _OTHER)


@pytest.mark.parametrize("strict", [False, True])
def test_nothing_changed_is_0(strict: bool) -> None:
    """Also under strict: everything could be told."""
    assert exit_code(compare(_BASE, _head(_A, _B)), strict=strict, full_suite=True) == 0


@pytest.mark.parametrize("strict", [False, True])
def test_a_regression_is_1(strict: bool) -> None:
    """An advisory change, or one that is not proven, is none."""
    assert exit_code(compare(_BASE, _head(_A, _B, wrong=20)), strict=strict) == 1
    assert exit_code(compare(_BASE, _head(_A, _B, wrong=1)), strict=strict) == 0


def test_a_removed_test_is_1_for_the_whole_suite_unless_accepted() -> None:
    """A part of the suite says nothing about the rest."""
    found = compare(_BASE, _head(_A))
    assert exit_code(found) == 0
    assert exit_code(found, full_suite=True) == 1
    removed = [one.series for one in unaccepted(found, ())]
    assert removed == [_OTHER.series]
    assert exit_code(found, full_suite=True, accepted=removed) == 0
    assert exit_code(found, full_suite=True, accepted=[key(_A)]) == 1


def _few_launches() -> Comparison:
    record = timed(record_of(_A, latency=True), 0.5)
    return compare(launches([record]), launches([record], commit="head"))


def test_what_could_not_be_told_is_3_under_strict() -> None:
    """One launch a side cannot judge a latency."""
    assert exit_code(_few_launches()) == 0
    assert exit_code(_few_launches(), strict=True) == 3


def test_a_latency_that_the_head_lacks_is_3_under_strict() -> None:
    """It could not be judged, though nothing of it is advisory."""
    found = compare(launch(timed(record_of(_A, latency=True), 0.5)), launch(record_of(_A), commit="head"))
    assert (exit_code(found), exit_code(found, strict=True)) == (0, 3)


def test_no_base_is_4_under_strict() -> None:
    """There is nothing to compare with."""
    found = compare([], _head(_A))
    assert exit_code(found) == 0
    assert exit_code(found, strict=True) == 4
    assert found.notes == ("the base has no records",)


def test_a_base_of_another_machine_or_version_is_4_under_strict() -> None:
    """An added test is not: it cannot have one."""
    record = timed(record_of(_A, latency=True), 0.5)
    machines = compare(launches([record], cpu="one"), launches([record], commit="head", cpu="two"))
    versions = compare(_BASE, launch(replace(record_of(_A), digests={"data": "new"}), _OTHER, commit="head"))
    added = compare(launch(record_of(_A)), _head(_A, _B))
    assert [exit_code(one, strict=True) for one in (machines, versions, added)] == [4, 4, 0]


def test_a_regression_outweighs_what_could_not_be_told() -> None:
    """1 before 3, 3 before 4."""
    record = timed(record_of(_A, latency=True), 0.5)
    wrong = answered(record, answers(range(20)))
    found = compare(launches([record]), launches([wrong], commit="head"))
    assert exit_code(found, strict=True) == 1
