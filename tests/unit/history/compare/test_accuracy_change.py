"""Scores of two commits: facts are shown, and the test of the pairs says what gates."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_quant.history.compare import compare
from pytest_quant.history.compare.comparison import Outcome
from pytest_quant.record import Record
from pytest_quant.result import Better
from tests.unit.history.compare.launched import N, answered, answers, between, key, launch, launches, record_of, row
from tests.unit.record.examples import with_accuracy


def _answering(wrong: range, better: Better = "higher") -> Record:
    return answered(record_of(), answers(wrong), better)


@settings(max_examples=25)
@given(st.sets(st.integers(0, N - 1), max_size=60), st.sets(st.integers(0, N - 1), max_size=60))
def test_lost_and_won_are_counted_sample_by_sample(before: set[int], after: set[int]) -> None:
    """The counts are those of the sets, the change is that of the scores, and p is SciPy's binomial test."""
    base, head = answered(record_of(), answers(before)), answered(record_of(), answers(after))
    result = row(between(base, head), "accuracy")
    lost, won = len(after - before), len(before - after)
    assert (result.lost, result.won, result.n) == (lost, won, N)
    assert result.change == pytest.approx(100.0 * (won - lost) / N)
    expected = scipy_stats.binomtest(lost, lost + won).pvalue if lost + won else None
    assert result.p == pytest.approx(expected)
    assert result.interval is not None
    assert result.interval.low <= (result.change or 0.0) <= result.interval.high


@pytest.mark.parametrize(
    ("before", "after", "outcome", "family"),
    [
        (range(0), range(1), Outcome.WORSE, 1),
        (range(1), range(0), Outcome.BETTER, 1),
        (range(5), range(5, 10), Outcome.CHANGED, 1),
        (range(7), range(7), Outcome.UNCHANGED, 0),
    ],
)
def test_what_chance_could_give_is_shown_and_does_not_gate(
    before: range, after: range, outcome: Outcome, family: int
) -> None:
    """One sample, or as many lost as won; equal answers test nothing and do not weaken the tests of others."""
    comparison = between(_answering(before), _answering(after))
    assert (row(comparison, "accuracy").outcome, comparison.family) == (outcome, family)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("wrong", [range(20), range(5, 10)])
def test_launches_that_vary_show_the_least_change(wrong: range, order: int) -> None:
    """One of two launches of the head has the answers of the base: what varies within a commit is no change of it."""
    steady, other = _answering(range(5)), _answering(wrong)
    result = row(compare(launches([steady] * 2), launches([steady, other][::order], commit="head")), "accuracy")
    assert result.outcome is Outcome.UNCHANGED
    assert any("vary between launches of the head" in note for note in result.notes)


def test_answers_on_another_machine_gate_too() -> None:
    """Unlike the size of an engine, which a runtime may build otherwise there."""
    base, head = _answering(range(0)), _answering(range(20))
    result = row(compare(launch(base, cpu="one"), launch(head, commit="head", cpu="two")), "accuracy")
    assert (result.outcome, result.notes) == (Outcome.REGRESSION, ())


def test_a_common_machine_is_preferred() -> None:
    """What another machine answers is left out where both sides have one in common."""
    here, there = _answering(range(0)), _answering(range(20))
    head = [*launch(here, run="0", commit="head", cpu="one"), *launch(there, run="1", commit="head", cpu="two")]
    result = row(compare(launch(here, cpu="one"), head), "accuracy")
    assert (result.outcome, result.head_launches, result.notes) == (Outcome.UNCHANGED, 1, ())


@pytest.mark.parametrize("spoiled", ["%%%", "AAAA", "eJwDAAAAAAE="])
def test_damaged_answers_are_noted_and_block_no_verdict(spoiled: str) -> None:
    """Not base64, not deflated, and too few of them: that test is compared by its drop, and others as ever."""
    record, lost = record_of(), _answering(range(20))
    broken = with_accuracy(record, candidate_correct=spoiled)
    was, now = (replace(each, nodeid="test_other", series=key("test_other")) for each in (record, lost))
    comparison = compare(launch(record, was), launch(broken, now, commit="head"))
    assert row(comparison, "drop").outcome is Outcome.UNCHANGED
    assert row(comparison, "accuracy").outcome is Outcome.REGRESSION
    (note,) = comparison.notes
    assert note.startswith("answers of the head are damaged, and not compared sample by sample")
    assert "history prune --run head-1 " in note
