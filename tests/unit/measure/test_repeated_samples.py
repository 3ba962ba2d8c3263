"""Equal samples count once: what a set repeated many times says of further samples is what the set says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_quant.measure.evaluation import evaluate
from pytest_quant.metrics import Metric, resolve_metric
from pytest_quant.result import AccuracyResult, Status
from pytest_quant.spec import Limits
from pytest_quant.verdict.accuracy_limits import accuracy_verdicts
from pytest_quant.verdict.doubt import doubt_worthless_scores
from tests.unit.measure.evaluated import outputs, pairs

PASS, INCONCLUSIVE = Status.PASS, Status.INCONCLUSIVE


def repeated(
    times: int, seed: int, metric: str | Metric | None = None, different: int = 60, counted: bool = True
) -> AccuracyResult:
    """Evaluate so many samples, each `times` times, in chunks that do not end where a repetition does."""
    r, c, labels = (np.concatenate([side[:different]] * times) for side in outputs(seed))
    chosen = resolve_metric(metric, "int", r.shape)
    return evaluate(pairs(r, c, labels, 77), chosen, output=(), margin=1.0, n_different=different if counted else None)


@given(times=st.integers(1, 6), seed=st.integers(0, 1000), different=st.integers(2, 60))
@settings(max_examples=40, deadline=None)
def test_copies_narrow_no_interval(times: int, seed: int, different: int) -> None:
    """Scores and drop are means over all samples; interval, p, weight and chance are those of the different ones."""
    once, often = (repeated(each, seed, different=different) for each in (1, times))
    assert (often.n, often.n_different) == (times * different, different)
    for figure in ("reference", "candidate", "drop", "agreement_pct", "sample_weight", "p_value", "chance"):
        assert getattr(often, figure) == pytest.approx(getattr(once, figure)), figure
    for figure in ("candidate_chance", "agreement_chance"):
        assert getattr(often, figure) == pytest.approx(getattr(once, figure)), figure
    for figure in ("drop_ci", "candidate_ci"):
        assert tuple(getattr(often, figure)) == pytest.approx(tuple(getattr(once, figure)), abs=1e-6), figure


ERROR = Metric(lambda outputs, labels: np.abs(outputs[:, 0] - labels), better="lower", unit="mm", name="distance")


@pytest.mark.parametrize("metric", ["f1", ERROR])
def test_copies_narrow_no_bootstrap(metric: str | Metric) -> None:
    """Resampled 10 copies of 60 samples give an interval as wide as the 60, within the noise of 2000 resamples."""
    widths = []
    for times, counted in ((1, True), (10, True), (10, False)):
        result = repeated(times, 3, metric, counted=counted)
        assert result.drop_ci is not None
        widths.append(result.drop_ci.high - result.drop_ci.low)
    assert widths[1] == pytest.approx(widths[0], rel=0.15)
    assert widths[2] < 0.6 * widths[0]


def test_copies_without_labels_agree_as_before() -> None:
    """There are no right answers to have skill in."""
    r, c, _ = outputs(4)
    result = evaluate(pairs(r, c, None), None, output=(), n_different=30)
    assert result.agreement_pct == 100 * np.mean(r.argmax(axis=1) == c.argmax(axis=1))
    assert (result.chance, result.skill_lost) == (None, False)


def test_nine_errors_and_their_copies_are_too_few_for_an_interval() -> None:
    """A score without bounds needs ten samples, and copies are none."""
    assert repeated(20, 3, ERROR, different=9).drop_ci is None
    assert repeated(20, 3, ERROR, different=10).drop_ci is not None


LIMITS = Limits(max_drop=0, min_ratio=1, min_accuracy=99, min_reference_accuracy=99, min_agreement=99.5)


@pytest.mark.parametrize("n_different", [1, 2, 50])
def test_few_pictures_many_times_pass_no_tight_limit(n_different: int) -> None:
    """300 samples that are copies of one, two or fifty, all of them right: one weighs more than any limit leaves."""
    labels = np.arange(300) % n_different % 4
    scores = np.eye(4, dtype=np.float32)[labels]
    result = evaluate(
        pairs(scores, scores, labels), resolve_metric(None, "int", scores.shape), output=(), n_different=n_different
    )
    verdicts = list(accuracy_verdicts(LIMITS, result, None))
    assert {verdict.status for verdict in verdicts} == {INCONCLUSIVE}
    assert f"300 samples, {n_different} of them different" in verdicts[0].reason


def test_a_handful_of_copies_changes_no_verdict() -> None:
    """A blank picture that occurs 100 times among 1000 samples is no reason to doubt the other 900."""
    labels = np.arange(1000) % 10
    reference = np.eye(10, dtype=np.float32)[np.where(np.arange(1000) < 20, labels + 1, labels) % 10]
    candidate = reference.copy()
    candidate[500:505] = np.roll(candidate[500:505], 1, axis=1)
    limits = Limits(max_drop=1.0, min_ratio=0.98, min_accuracy=97, min_agreement=99)
    metric = resolve_metric(None, "int", reference.shape)
    for n_different in (None, 1000, 901):
        result = evaluate(pairs(reference, candidate, labels), metric, output=(), n_different=n_different)
        verdicts = doubt_worthless_scores(accuracy_verdicts(limits, result, None), result, ())
        assert {verdict.status for verdict in verdicts} == {PASS}


def test_luck_is_that_of_the_different_samples() -> None:
    """Ten pictures a hundred times: 4 of 10 right is luck among five classes, and 400 of 1000 would not be."""
    labels = np.tile(np.arange(10) % 5, 100)
    answered = np.where(np.arange(1000) % 10 < 4, labels, (labels + 1) % 5)
    scores = np.eye(5, dtype=np.float32)[answered]
    metric = resolve_metric(None, "int", scores.shape)
    for n_different, status in ((10, INCONCLUSIVE), (1000, PASS)):
        result = evaluate(pairs(scores, scores, labels), metric, output=(), n_different=n_different)
        verdicts = doubt_worthless_scores(accuracy_verdicts(Limits(max_drop=50), result, None), result, ())
        assert [verdict.status for verdict in verdicts] == [status]
