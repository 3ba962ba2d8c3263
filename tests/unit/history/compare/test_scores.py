"""Scores that are not right or wrong: paired per sample where both records have them, never gated for a rounding."""

from __future__ import annotations

import base64
import math
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_quant.history.compare import compare
from pytest_quant.history.compare.accuracy_change import include_run_noise, paired_p
from pytest_quant.history.compare.comparison import Outcome
from pytest_quant.metrics.answers import MOST_SCORES
from pytest_quant.metrics.drop import PairedStatistics
from pytest_quant.metrics.metric import Metric, resolve_wrapped
from pytest_quant.record import Record
from pytest_quant.result import AccuracyResult, Better, Interval
from pytest_quant.stats.ratio import student_quantile
from tests.unit.history.compare.launched import N, between, launch, record_of, row
from tests.unit.history.compare.test_whole_rows import MAP, a_row, about, scored
from tests.unit.record.examples import series_of, with_accuracy

MAE = resolve_wrapped(Metric(lambda outputs, _: outputs[:, 0], better="lower", unit="mm", scale=1, name="error"))


def measured(errors: np.ndarray, reference: float = 1.0, better: Better = "lower") -> Record:
    """A record of these errors, as a check keeps it; the reference's are all `reference`."""
    scores = PairedStatistics(replace(MAE, better=better))
    scores.add(
        np.full((len(errors), 1), reference), errors[:, None], np.zeros(len(errors)), np.ones(len(errors), bool), 0
    )
    result = scores.add_to(AccuracyResult(n=len(errors)), None, 0.95)
    return replace(record_of(), accuracy=result, metric="error")


def without_samples(record: Record) -> Record:
    """The record as earlier versions wrote it."""
    return with_accuracy(record, candidate_scores=None)


def test_errors_are_compared_sample_by_sample() -> None:
    """A rise by 2 % of the mean that the intervals of two drops hide is proven where the samples are paired."""
    errors = np.exp(np.random.default_rng(1).normal(size=400))
    worse = errors + 0.03 * np.random.default_rng(2).random(400)
    base, head = measured(errors), measured(worse)
    result = row(between(base, head), "accuracy")
    assert result.outcome is Outcome.REGRESSION
    assert result.p == pytest.approx(float(scipy_stats.ttest_rel(worse, errors).pvalue), abs=1e-12)
    assert (result.base, result.head) == pytest.approx((errors.mean(), worse.mean()))
    assert result.interval is not None
    assert result.interval.low <= (worse - errors).mean() <= result.interval.high
    assert (result.n, result.unit, result.change_unit) == (400, "mm", "mm")
    assert row(between(head, base), "accuracy").outcome is Outcome.IMPROVEMENT
    higher = (measured(each, better="higher") for each in (errors, worse))
    assert row(between(*higher), "accuracy").outcome is Outcome.IMPROVEMENT
    old = row(between(without_samples(base), without_samples(head)), "drop")
    assert old.outcome is Outcome.WORSE


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("reference", "change"), [(0.0, 1e-7), (2.0, 5e-5)])
def test_a_change_that_is_a_rounding_does_not_gate(reference: float, change: float, paired: bool) -> None:
    """However often it shows: 0 -> 1e-7 of a perfect reference, or 5e-5 of what the reference itself errs."""
    errors = np.full(400, reference)
    base, head = measured(errors, reference), measured(errors + change, reference)
    if not paired:
        base = with_accuracy(without_samples(base), drop_ci=Interval(0.0, 0.0))
        head = with_accuracy(without_samples(head), drop_ci=Interval(change, change))
    result = row(between(base, head), "accuracy" if paired else "drop")
    assert (result.outcome, result.p) == (Outcome.WORSE, None)
    assert result.change == pytest.approx(change)


@pytest.mark.parametrize(
    ("spans", "outcome", "text"),
    [
        ((Interval(0.5, 1.5), Interval(1.75, 4.25)), Outcome.REGRESSION, "[0.5, 1.5] -> [1.75, 4.25]"),
        ((Interval(0.5, 1.5), Interval(1.5, 4.25)), Outcome.WORSE, "[0.5, 1.5] -> [1.5, 4.25]"),
        ((None, Interval(1.75, 4.25)), Outcome.WORSE, "none -> [1.75, 4.25]"),
        ((Interval(0.5, 1.5), None), Outcome.WORSE, "[0.5, 1.5] -> none"),
    ],
)
def test_drops_without_pairs(spans: tuple[Interval | None, Interval | None], outcome: Outcome, text: str) -> None:
    """A difference of points, which is lower for what is better; the intervals decide, and both are told.

    p is SciPy's normal one, with the standard errors of the ends that face each other.
    """
    base, head = (
        scored(**MAP, candidate=70.0 - drop, drop=drop, drop_ci=span)
        for drop, span in zip((1.0, 3.0), spans, strict=True)
    )
    others: dict[str, Any] = {
        "unit": "pp",
        "better": "lower",
        "n": N,
        "notes": (f"intervals of the drop: {text}",),
    }
    if spans[0] is not None and spans[1] is not None:
        error = np.hypot(spans[0].high - 1.0, 3.0 - spans[1].low) / scipy_stats.norm.ppf(0.975)
        others["p"] = others["p_adjusted"] = about(2.0 * float(scipy_stats.norm.sf(2.0 / error)))
    assert row(between(base, head), "drop") == a_row("drop", outcome, 1.0, 3.0, change=2.0, **others)
    turned = " -> ".join(reversed(text.split(" -> ")))
    others["notes"] = (f"intervals of the drop: {turned}",)
    gained = {Outcome.REGRESSION: Outcome.IMPROVEMENT, Outcome.WORSE: Outcome.BETTER}[outcome]
    assert row(between(head, base), "drop") == a_row("drop", gained, 3.0, 1.0, change=-2.0, **others)


def test_unpaired_drops_share_the_alarms_of_all_tests() -> None:
    """Intervals that just do not touch (p = 0.0056) are proven alone, and are not where another row is tested too."""
    record = without_samples(measured(np.linspace(1.0, 2.0, 50)))
    base, head = (with_accuracy(record, drop=drop, drop_ci=Interval(drop - 1.0, drop + 1.0)) for drop in (1.0, 3.01))
    alone = between(base, head)
    assert (alone.family, row(alone, "drop").outcome) == (1, Outcome.REGRESSION)
    assert row(alone, "drop").p == pytest.approx(
        2.0 * scipy_stats.norm.sf(2.01 / (2.0**0.5 / scipy_stats.norm.ppf(0.975)))
    )
    other = (
        launch(base, replace(base, series=series_of("t"), nodeid="t")),
        launch(head, replace(head, series=series_of("t"), nodeid="t"), commit="head"),
    )
    both = compare(*other)
    assert both.family == 2
    assert {each.outcome for each in both.rows if each.quantity == "drop"} == {Outcome.WORSE}


def test_equal_errors_are_unchanged_and_not_tested() -> None:
    """Of a mean that is the same with other errors, the change is named."""
    errors = np.linspace(1.0, 2.0, 40)
    same = row(between(measured(errors), measured(errors)), "accuracy")
    assert (same.outcome, same.p, same.change, same.interval) == (Outcome.UNCHANGED, None, 0.0, None)
    turned = row(between(measured(errors), measured(errors[::-1])), "accuracy")
    assert turned.outcome is Outcome.CHANGED


@pytest.mark.parametrize("spoiled", ["eJwDAAAAAAE=", None])
def test_damaged_scores_are_noted(spoiled: str | None) -> None:
    """Too few of them, and no numbers; what is not base64 or deflated is tried in `test_accuracy`."""
    record = measured(np.linspace(1.0, 2.0, 40))
    not_a_number = base64.b64encode(zlib.compress(np.full(40, np.nan, "<f4").tobytes())).decode()
    comparison = between(with_accuracy(record, candidate_scores=spoiled or not_a_number), record)
    assert row(comparison, "drop").outcome is Outcome.UNCHANGED
    assert any(note.startswith("answers of the base are damaged") for note in comparison.notes)


def test_what_a_record_keeps_is_bounded() -> None:
    """Four bytes for each of at most 10 000 samples, in base64; scores that float32 does not hold are left out."""
    random = np.random.default_rng(3)
    accuracy = measured(random.random(MOST_SCORES)).accuracy
    assert accuracy is not None
    assert accuracy.candidate_scores is not None
    assert len(accuracy.candidate_scores) <= 4 / 3 * (4 * MOST_SCORES + 100)
    for errors in (random.random(MOST_SCORES + 1), np.full(20, 1e300)):
        none = measured(errors).accuracy
        assert none is not None
        assert none.candidate_scores is None


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), n=st.integers(10, 200))
def test_p_is_that_of_students_paired_test(seed: int, n: int) -> None:
    """SciPy's, where so many samples changed that chance could have turned each of them."""
    differences = np.random.default_rng(seed).normal(0.1, 1.0, n)
    expected = max(float(scipy_stats.ttest_1samp(differences, 0.0).pvalue), 2.0 ** (1 - n))
    assert paired_p(differences) == pytest.approx(expected, rel=1e-6)


def test_p_of_few_changes_is_what_chance_can_do() -> None:
    """Five equal changes of 1000 are 2 in 2^5, where Student's t says 0.025; one change proves nothing."""
    differences = np.zeros(1000)
    differences[:5] = 1.0
    assert paired_p(differences) == 2.0**-4
    differences[1:5] = 0.0
    assert paired_p(differences) == 1.0
    assert paired_p(np.ones(8)) == 2.0**-7
    assert paired_p(np.ones(1)) == 1.0
    assert paired_p(np.zeros(3)) is None


def _of_runs(run_sd: float | None) -> AccuracyResult:
    """What a record has of three runs a side over 400 samples."""
    known = AccuracyResult(n=400, metric="acc", unit="%", better="higher", candidate=50.0, varies=True)
    return replace(known, reference_runs=3, candidate_runs=3, run_sd=run_sd)


@pytest.mark.parametrize("run_sd", [None, 0.0, 1.5])
def test_a_change_of_scores_has_the_noise_between_their_runs(run_sd: float | None) -> None:
    """Without any the interval stays; with it the interval is that of samples and runs together, and p is larger."""
    result = _of_runs(run_sd)
    interval, p = include_run_noise(result, result, -2.5, Interval(-4.0, -1.0), 0.001)
    reach = student_quantile(0.95, 8) * (run_sd or 0.0) * math.sqrt(2 / 3)
    assert interval is not None
    assert p is not None
    assert list(interval) == pytest.approx([-2.5 - math.hypot(1.5, reach), -2.5 + math.hypot(1.5, reach)])
    assert p > 0.05 if run_sd else p < 0.003


def test_a_change_without_an_interval_stays_as_it_is() -> None:
    """Where no sample differs there is nothing to widen."""
    assert include_run_noise(_of_runs(1.0), _of_runs(1.0), 0.0, None, None) == (None, None)


def test_single_runs_change_beyond_the_noise_that_runs_usually_have() -> None:
    """With 0.7 pp assumed for both the interval is that of the samples and of one run a side; facts have none."""
    single = AccuracyResult(
        n=400, metric="acc", unit="%", better="higher", candidate_runs=1, reference_runs=1, assumed_run_sd=0.7
    )
    interval, p = include_run_noise(single, single, -2.5, Interval(-4.0, -1.0), 0.001)
    reach = student_quantile(0.95, 1e6) * 0.7 * math.sqrt(2)
    assert interval is not None
    assert p is not None
    assert list(interval) == pytest.approx([-2.5 - math.hypot(1.5, reach), -2.5 + math.hypot(1.5, reach)])
    assert p > 0.03
    fixed = replace(single, assumed_run_sd=None)
    assert include_run_noise(fixed, fixed, -2.5, Interval(-4.0, -1.0), 0.001) == (Interval(-4.0, -1.0), 0.001)
