"""Limits on accuracy and output tensors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.result import AccuracyResult, Interval, OutputError, OutputFault, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.accuracy import accuracy_verdicts

TOP1 = AccuracyResult(
    n=200,
    metric="top1",
    unit="%",
    better="higher",
    reference=90.5,
    candidate=90.0,
    drop=0.5,
    drop_ci=Interval(-1.0, 2.0),
    agreement_pct=97.5,
    n_to_resolve=1240,
)
MAE = replace(TOP1, metric="mae", unit="", better="lower", reference=0.1, candidate=5.0, drop=4.9)


def only(limits: Limits, accuracy: AccuracyResult = TOP1, confidence: float | None = None) -> Verdict:
    """Return the single verdict that `limits` asks for."""
    (verdict,) = accuracy_verdicts(limits, accuracy, confidence)
    return verdict


@given(drop=st.floats(-100, 100), allowed=st.floats(0, 100))
def test_the_point_estimate_decides_max_drop(drop: float, allowed: float) -> None:
    """Without a confidence, the drop fails exactly when it is above the limit, rounding of a few ulps aside."""
    status = only(Limits(max_drop=allowed), replace(TOP1, drop=drop)).status
    if drop > allowed + 1e-6:
        assert status is Status.FAIL
    if drop <= allowed:
        assert status is Status.PASS


def test_a_limit_hit_exactly_passes() -> None:
    """100 * 3 / 300 points against 1.0 is not a failure, whatever the rounding."""
    assert only(Limits(max_drop=1.0), replace(TOP1, drop=1.0000000000000002)).status is Status.PASS


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [(1.1, 2.0, Status.FAIL), (-0.5, 1.0, Status.PASS), (0.5, 1.5, Status.INCONCLUSIVE)],
)
def test_with_a_confidence_the_interval_decides(low: float, high: float, status: Status) -> None:
    """Proof is asked for: beyond the limit fails, within it passes, across it is inconclusive."""
    assert only(Limits(max_drop=1.0), replace(TOP1, drop_ci=Interval(low, high)), 0.95).status is status


def test_an_inconclusive_drop_says_how_many_samples_would_tell() -> None:
    """The reader learns the number of samples that would resolve the limit."""
    assert "1240" in only(Limits(max_drop=1.0), TOP1, 0.95).reason


def test_without_an_interval_proof_is_inconclusive() -> None:
    """One sample proves nothing."""
    assert only(Limits(max_drop=1.0), replace(TOP1, drop_ci=None), 0.95).status is Status.INCONCLUSIVE


def test_a_metric_that_rises_when_things_get_worse_fails() -> None:
    """MAE 0.1 -> 5.0 is a drop of 4.9, and a ratio of 0.02."""
    assert only(Limits(max_drop=1.0), MAE).status is Status.FAIL
    ratio = only(Limits(min_ratio=0.99), MAE)
    assert ratio.status is Status.FAIL
    assert ratio.observed == pytest.approx(0.1 / 5.0)


@given(reference=st.floats(0.01, 100), candidate=st.floats(0.01, 100))
def test_min_ratio_divides_by_the_reference_when_higher_is_better(reference: float, candidate: float) -> None:
    """The ratio is candidate / reference."""
    accuracy = replace(TOP1, reference=reference, candidate=candidate, drop=reference - candidate)
    assert only(Limits(min_ratio=0.5), accuracy).observed == pytest.approx(candidate / reference)


def test_a_perfect_candidate_has_an_infinite_ratio() -> None:
    """An error of 0 against a reference error of 0.1 passes."""
    assert only(Limits(min_ratio=0.99), replace(MAE, candidate=0.0, drop=-0.1)).status is Status.PASS


def test_a_ratio_over_a_score_of_zero_decides_nothing() -> None:
    """A reference that is always wrong and a candidate that is worse give no ratio."""
    accuracy = replace(TOP1, reference=0.0, candidate=-1.0, drop=1.0)
    assert only(Limits(min_ratio=0.99), accuracy).status is Status.INCONCLUSIVE


@pytest.mark.parametrize(("reference", "status"), [(90.5, Status.PASS), (10.0, Status.FAIL)])
def test_min_accuracy_is_about_the_reference(reference: float, status: Status) -> None:
    """A reference that is broken itself is caught, however well the candidate follows it."""
    verdict = only(Limits(min_accuracy=80), replace(TOP1, reference=reference, candidate=reference))
    assert verdict.status is status
    assert verdict.observed == reference


@pytest.mark.parametrize(
    ("limits", "accuracy"),
    [
        (Limits(max_drop=1.0), replace(TOP1, drop=None)),
        (Limits(min_ratio=0.9), replace(TOP1, reference=None)),
        (Limits(min_accuracy=1), replace(TOP1, reference=None)),
        (Limits(min_agreement=99), replace(TOP1, agreement_pct=None)),
    ],
)
def test_not_measured_is_never_pass(limits: Limits, accuracy: AccuracyResult) -> None:
    """A limit without its figure is inconclusive and shows no observed value."""
    verdict = only(limits, accuracy)
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.observed is None


@pytest.mark.parametrize(("allowed", "status"), [(0.2, Status.PASS), (0.1, Status.PASS), (0.05, Status.FAIL)])
def test_min_accuracy_of_an_error_is_the_largest_allowed(allowed: float, status: Status) -> None:
    """The reference's error of 0.1 is good enough below a limit, where lower is better."""
    assert only(Limits(min_accuracy=allowed), MAE).status is status


NAMED = {
    "max_drop": 1.0,
    "min_ratio": 0.5,
    "min_accuracy": 20.0,
    "min_agreement": 30.0,
    "min_sqnr_db": 10.0,
    "min_cosine": 0.25,
    "max_abs_error": 4.0,
}


@pytest.mark.parametrize("accuracy", [TOP1, AccuracyResult(n=0)], ids=["measured", "not measured"])
@pytest.mark.parametrize(("name", "allowed"), NAMED.items(), ids=list(NAMED))
def test_a_verdict_has_the_name_and_the_number_of_its_limit(
    name: str, allowed: float, accuracy: AccuracyResult
) -> None:
    """By them a reader, a record and a baseline find it."""
    outputs = (OutputError("scores", 21.0, 0.9, 3.0, 0),) if accuracy is TOP1 else ()
    limits = Limits(**{name: allowed})  # type: ignore[arg-type]  # none of these is a dict of percentiles
    verdict = only(limits, replace(accuracy, by_output=outputs))
    assert (verdict.limit, verdict.allowed) == (name, allowed)
    assert (verdict.observed is None) is (accuracy is not TOP1)


def test_agreement_fails_below_its_limit() -> None:
    """97.5 % is less than 98 %."""
    assert only(Limits(min_agreement=98)).status is Status.FAIL


def test_outputs_that_cannot_be_compared_fail_without_any_limit() -> None:
    """A NaN is a failure that names the output and the sample."""
    fault = OutputFault("logits", "not finite", 17, "nan in the candidate")
    verdict = only(Limits(), replace(TOP1, faults=(fault,)))
    assert verdict.status is Status.FAIL
    assert "logits" in verdict.reason
    assert "17" in verdict.reason


def test_no_limit_gives_no_verdict() -> None:
    """A mark without limits judges nothing."""
    assert list(accuracy_verdicts(Limits(), TOP1, None)) == []
