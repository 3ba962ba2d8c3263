"""Scores of two commits: facts are shown, and the test of the pairs says what gates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_quant.errors import HistoryError
from pytest_quant.history.compare import Comparison, Outcome, compare
from pytest_quant.record import Record
from pytest_quant.result import AccuracyResult, Better, Interval, OutputError
from tests.unit.history.compare.launched import N, answered, answers, changed, launch, launches, record_of, row


def _with(base: Record, head: Record) -> Comparison:
    return compare(launch(base), launch(head, commit="head"))


def _answering(wrong: range, better: Better = "higher") -> Record:
    return answered(record_of(), answers(wrong), better)


def _scored(**figures: object) -> Record:
    """A record without answers per sample."""
    found = AccuracyResult(n=N, **figures)  # type: ignore[arg-type]
    return replace(record_of(), accuracy=found, metric=found.metric)


@settings(max_examples=25)
@given(st.sets(st.integers(0, N - 1), max_size=60), st.sets(st.integers(0, N - 1), max_size=60))
def test_lost_and_won_are_counted_sample_by_sample(before: set[int], after: set[int]) -> None:
    """The counts are those of the sets, the change is that of the scores, and p is SciPy's binomial test."""
    base, head = answered(record_of(), answers(before)), answered(record_of(), answers(after))
    found = row(_with(base, head), "accuracy")
    lost, won = len(after - before), len(before - after)
    assert (found.lost, found.won, found.n) == (lost, won, N)
    assert found.change == pytest.approx(100.0 * (won - lost) / N)
    expected = scipy_stats.binomtest(lost, lost + won).pvalue if lost + won else None
    assert found.p == pytest.approx(expected)
    assert found.interval is not None
    assert found.interval.low <= (found.change or 0.0) <= found.interval.high


def test_a_loss_that_chance_would_not_give_is_a_regression() -> None:
    """20 of 400 lost, none won: p = 2 / 2^20."""
    found = row(_with(_answering(range(0)), _answering(range(20))), "accuracy")
    assert found.outcome is Outcome.REGRESSION
    assert found.p == pytest.approx(2.0 / 2**20)
    assert found.change == pytest.approx(-5.0)
    assert found.change_unit == "pp"


def test_a_loss_that_chance_could_give_is_shown_and_does_not_gate() -> None:
    """One sample: the answers are not the same, and that is a fact."""
    found = row(_with(_answering(range(0)), _answering(range(1))), "accuracy")
    assert found.outcome is Outcome.WORSE
    assert row(_with(_answering(range(1)), _answering(range(0))), "accuracy").outcome is Outcome.BETTER


def test_other_answers_with_an_equal_score_are_shown() -> None:
    """Five lost and five won."""
    found = row(_with(_answering(range(5)), _answering(range(5, 10))), "accuracy")
    assert found.outcome is Outcome.CHANGED
    assert (found.change, found.lost, found.won) == (0.0, 5, 5)


def test_equal_answers_test_nothing() -> None:
    """They take no part in the family, and so do not weaken the tests of others."""
    found = _with(_answering(range(7)), _answering(range(7)))
    assert row(found, "accuracy").outcome is Outcome.UNCHANGED
    assert (row(found, "accuracy").p, found.family) == (None, 0)


def test_where_lower_is_better_more_right_samples_lower_the_score() -> None:
    """An error rate that rises by 20 of 400 is a regression by +5 points, and its interval lies above 0."""
    found = row(_with(_answering(range(0), "lower"), _answering(range(20), "lower")), "accuracy")
    assert found.outcome is Outcome.REGRESSION
    assert found.base == 0.0
    assert found.head == pytest.approx(5.0)
    assert found.change == pytest.approx(5.0)
    assert found.interval is not None
    assert 0.0 < found.interval.low < 5.0 < found.interval.high


@pytest.mark.parametrize(
    ("spans", "outcome"),
    [
        ((Interval(0.5, 1.5), Interval(1.6, 2.6)), Outcome.REGRESSION),
        ((Interval(0.5, 1.5), Interval(1.4, 2.6)), Outcome.WORSE),
    ],
)
def test_without_pairs_intervals_that_do_not_overlap_gate(spans: tuple[Interval, Interval], outcome: Outcome) -> None:
    """The drop rose from 1 to 2; both intervals are told."""
    base, head = (
        _scored(metric="map", unit="%", better="higher", reference=70.0, candidate=70.0 - drop, drop=drop, drop_ci=span)
        for drop, span in zip((1.0, 2.0), spans, strict=True)
    )
    found = row(_with(base, head), "drop")
    assert (found.outcome, found.change) == (outcome, 1.0)
    assert any("intervals" in note for note in found.notes)
    assert (
        row(_with(head, base), "drop").outcome.value == {"regression": "improvement", "worse": "better"}[outcome.value]
    )


def test_an_equal_drop_is_unchanged() -> None:
    """Exact equality, and not nearness."""
    same = _scored(metric="map", unit="%", better="higher", reference=70.0, candidate=69.0, drop=1.0)
    near = _scored(metric="map", unit="%", better="higher", reference=70.0, candidate=69.0 - 1e-9, drop=1.0 + 1e-9)
    assert row(_with(same, same), "drop").outcome is Outcome.UNCHANGED
    assert row(_with(same, near), "drop").outcome is Outcome.WORSE


def test_a_retrained_model_with_an_equal_drop_is_told() -> None:
    """Both scores moved alike; the reference's is in the notes."""
    base, head = (
        _scored(metric="map", unit="%", better="higher", reference=score, candidate=score - 1.0, drop=1.0)
        for score in (70.0, 75.0)
    )
    found = row(_with(base, head), "drop")
    assert found.outcome is Outcome.CHANGED
    assert any("70 -> 75" in note for note in found.notes)


@pytest.mark.parametrize("dropped", [0, 1], ids=["the base", "the head"])
def test_a_drop_that_one_side_has_is_compared_with_nothing(dropped: int) -> None:
    """A missing drop is no drop of 0: what both sides have is compared."""
    known = AccuracyResult(n=N, metric="map", unit="%", better="higher", agreement_pct=99.0)
    sides = [replace(record_of(), accuracy=known)] * 2
    sides[dropped] = replace(sides[dropped], accuracy=replace(known, reference=70.0, candidate=69.0, drop=1.0))
    found = _with(*sides)
    assert row(found, "agreement").outcome is Outcome.UNCHANGED
    assert [one.quantity for one in found.rows if one.quantity in ("accuracy", "drop")] == []


def test_without_a_metric_agreement_is_compared_and_never_gates() -> None:
    """There is no interval of it."""
    found = row(_with(_scored(agreement_pct=99.0), _scored(agreement_pct=10.0)), "agreement")
    assert (found.outcome, found.change) == (Outcome.WORSE, -89.0)


def test_without_classes_the_outputs_are_compared() -> None:
    """Identical outputs have an infinite ratio of signal to noise, so any noise is worse."""
    identical, noisy = _scored(identical=True), _scored(sqnr_db=30.0)
    assert row(_with(identical, identical), "sqnr").outcome is Outcome.UNCHANGED
    assert row(_with(identical, noisy), "sqnr").outcome is Outcome.WORSE
    assert row(_with(noisy, identical), "sqnr").outcome is Outcome.BETTER
    assert row(_with(_scored(sqnr_db=40.0), noisy), "sqnr").change == -10.0
    assert row(_with(_scored(), noisy), "sqnr").outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(("before", "after", "told"), [(0, 2, False), (2, 0, False), (2, 2, True), (0, 1, True)])
def test_sqnr_of_all_outputs_together_is_not_compared_with_that_of_the_worst(
    before: int, after: int, told: bool
) -> None:
    """Records from before each output was judged by itself have the first; with one output both are the same."""
    base, head = (
        _scored(sqnr_db=sqnr_db, by_output=tuple(OutputError(f"y{place}", sqnr_db) for place in range(count)))
        for sqnr_db, count in ((56.0, before), (0.0, after))
    )
    found = row(_with(base, head), "sqnr")
    assert found.outcome is (Outcome.WORSE if told else Outcome.INCONCLUSIVE)
    assert any("all outputs together" in note for note in found.notes) is not told


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("wrong", [range(20), range(5, 10)])
def test_launches_that_vary_show_the_least_change(wrong: range, order: int) -> None:
    """One of two launches of the head has the answers of the base: what varies within a commit is no change of it."""
    steady, other = _answering(range(5)), _answering(wrong)
    found = row(compare(launches([steady] * 2), launches([steady, other][::order], commit="head")), "accuracy")
    assert found.outcome is Outcome.UNCHANGED
    assert any("vary between launches of the head" in note for note in found.notes)


def test_launches_that_contradict_one_another_tell_nothing() -> None:
    """One gained and one lost against the base."""
    base, better, worse = _answering(range(30)), _answering(range(0)), _answering(range(90))
    found = row(compare(launch(base), launches([better, worse], commit="head")), "accuracy")
    assert found.outcome is Outcome.INCONCLUSIVE


def test_across_machines_accuracy_is_compared_with_a_note_about_the_instruction_set() -> None:
    """A tier that saturates rounds otherwise."""
    base, head = replace(_answering(range(0)), isa="avx512_vnni"), replace(_answering(range(20)), isa="avx2")
    found = row(compare(launch(base, cpu="one"), launch(head, commit="head", cpu="two")), "accuracy")
    assert found.outcome is Outcome.REGRESSION
    assert any("avx512_vnni -> avx2" in note for note in found.notes)
    same = row(compare(launch(base, cpu="one"), launch(base, commit="head", cpu="two")), "accuracy")
    assert same.notes == ()


def test_a_common_machine_is_preferred() -> None:
    """What another machine answers is left out where both sides have one in common."""
    here, there = _answering(range(0)), _answering(range(20))
    head = [*launch(here, run="0", commit="head", cpu="one"), *launch(there, run="1", commit="head", cpu="two")]
    found = row(compare(launch(here, cpu="one"), head), "accuracy")
    assert (found.outcome, found.head_launches, found.notes) == (Outcome.UNCHANGED, 1, ())


@pytest.mark.parametrize("spoiled", ["%%%", "AAAA", "eJwDAAAAAAE="])
def test_damaged_answers_are_named(spoiled: str) -> None:
    """Not base64, not deflated, and too few of them."""
    record = record_of()
    assert record.accuracy is not None
    broken = replace(record, accuracy=replace(record.accuracy, candidate_correct=spoiled))
    with pytest.raises(HistoryError, match="damaged"):
        _with(record, broken)


def test_what_differs_stands_beside_a_change_only() -> None:
    """Calibration, digests and versions by their name; an unchanged row tells none."""
    head = replace(_answering(range(20)), calibration="entropy", digests={"engine": "new", "data": "def456"})
    found = _with(_answering(range(0)), head)
    told = {(one.name, one.base, one.head) for one in row(found, "accuracy").differs}
    assert told == {("calibration", "minmax", "entropy"), ("engine digest", "abc123", "new")}
    assert row(found, "size").differs == ()


def test_a_library_of_another_version_is_named() -> None:
    """By the context of the run."""
    base, head = launch(_answering(range(0))), launch(_answering(range(20)), commit="head")
    run = head[0].run
    newer = replace(run, environment=replace(run.environment, context={"python": "3.11.7", "onnxruntime": "1.20"}))
    (found,) = row(compare(base, [replace(head[0], run=newer)]), "accuracy").differs
    assert (found.name, found.base, found.head) == ("onnxruntime", None, "1.20")


def test_random_answers_are_seldom_a_regression() -> None:
    """At the level of 1 %, of 300 pairs of commits without a difference at most 9 show one: P(X > 9) < 0.1 %."""
    random = np.random.default_rng(4)
    alarms = 0
    for _ in range(300):
        base, head = (answered(record_of(), answers(np.flatnonzero(random.random(N) < 0.1))) for _ in range(2))
        alarms += row(_with(base, head), "accuracy").outcome in (Outcome.REGRESSION, Outcome.IMPROVEMENT)
    assert alarms <= 9
    assert changed(_with(base, head)) <= {("accuracy", "worse"), ("accuracy", "better"), ("accuracy", "changed")}
