"""What an engine's difference from itself could flip is open, and nothing else is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.result import AccuracyResult, OutputError, SelfDifference, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.accuracy import accuracy_verdicts
from pytest_quant.verdict.unsteady import within_itself

ROUNDING = SelfDifference("ort-fp32", 8, 1e-7, 2e-7, 0.0)
NOISE = SelfDifference("ort-fp32", 8, 0.5, 3.0, 50.0)


def evaluated(agreement_pct: float = 98.0, drop: float = 1.0, n: int = 400) -> AccuracyResult:
    """Return top1 of `n` samples with one output of 30 dB."""
    error = OutputError("y", sqnr_db=30.0, cosine=0.9995, max_abs_error=0.25, sample=0)
    return AccuracyResult(
        n=n,
        metric="top1",
        unit="%",
        better="higher",
        reference=90.0,
        candidate=90.0 - drop,
        drop=drop,
        agreement_pct=agreement_pct,
        sample_weight=100 / n,
        by_output=(error,),
    )


def only(limits: Limits, *unsteady: SelfDifference, accuracy: AccuracyResult | None = None) -> Verdict:
    """Return the single verdict on engines of these differences from themselves."""
    accuracy = evaluated() if accuracy is None else accuracy
    (verdict,) = within_itself(accuracy_verdicts(limits, accuracy, None), accuracy, unsteady)
    return verdict


EACH = [
    (Limits(max_drop=1.5), Limits(max_drop=0.5)),
    (Limits(min_ratio=0.98), Limits(min_ratio=0.995)),
    (Limits(min_accuracy=89.0), Limits(min_accuracy=91.0)),
    (Limits(min_agreement=97.0), Limits(min_agreement=99.0)),
    (Limits(min_sqnr_db=29.0), Limits(min_sqnr_db=31.0)),
    (Limits(min_cosine=0.999), Limits(min_cosine=0.9999)),
    (Limits(max_abs_error=0.3), Limits(max_abs_error=0.2)),
]


@pytest.mark.parametrize(("passing", "failing"), EACH)
def test_noise_as_large_as_the_scores_decides_nothing(passing: Limits, failing: Limits) -> None:
    """Neither a pass nor a fail is the candidate's then; the reason says who differs and how far it goes."""
    for limits, status in ((passing, Status.PASS), (failing, Status.FAIL)):
        assert only(limits).status is status
        verdict = only(limits, NOISE)
        assert verdict.status is Status.INCONCLUSIVE
        assert "but ort-fp32 differs from run to run, which alone puts it between" in verdict.reason


@pytest.mark.parametrize(("passing", "failing"), EACH)
def test_the_order_of_sums_flips_nothing_that_is_not_at_its_limit(passing: Limits, failing: Limits) -> None:
    """Differences of 1e-7 leave every verdict as it is."""
    for limits in (passing, failing):
        assert only(limits, ROUNDING, ROUNDING) == only(limits)


def test_rounding_decides_nothing_where_it_could() -> None:
    """A largest error that lies within the difference of two runs from its limit."""
    assert only(Limits(max_abs_error=0.25 + 1e-7)).status is Status.PASS
    assert only(Limits(max_abs_error=0.25 + 1e-7), ROUNDING).status is Status.INCONCLUSIVE
    assert only(Limits(max_abs_error=0.25 + 3e-7), ROUNDING).status is Status.PASS


def test_agreement_is_open_by_the_samples_that_change() -> None:
    """Two engines that change one class in eight each leave 25 points open on both sides."""
    one = SelfDifference("a", 8, 0.1, 1.0, 12.5)
    for allowed, status in ((72.0, Status.PASS), (74.0, Status.INCONCLUSIVE), (99.0, Status.INCONCLUSIVE)):
        assert only(Limits(min_agreement=allowed), one, one).status is status
    low = evaluated(agreement_pct=60.0)
    assert only(Limits(min_agreement=84.0), one, one, accuracy=low).status is Status.INCONCLUSIVE
    assert only(Limits(min_agreement=86.0), one, one, accuracy=low).status is Status.FAIL


def test_a_score_is_open_by_three_standard_deviations() -> None:
    """Of 400 samples one in eight changes: by simulation three deviations are 300 sqrt(0.125 / 400) = 5.3 points."""
    one = SelfDifference("a", 8, 0.1, 1.0, 12.5)
    random = np.random.default_rng(0)
    drops = 100 * random.choice([-1, 0, 1], p=[0.0625, 0.875, 0.0625], size=(2000, 400)).mean(axis=1)
    assert 3 * drops.std() == pytest.approx(300 * math.sqrt(0.125 / 400), rel=0.05)
    for allowed, status in ((6.5, Status.PASS), (6.0, Status.INCONCLUSIVE), (0.5, Status.INCONCLUSIVE)):
        assert only(Limits(max_drop=allowed), one).status is status
    assert only(Limits(max_drop=2.0), one, accuracy=evaluated(drop=8.0)).status is Status.FAIL


@given(share=st.floats(0.0, 0.03))
def test_sqnr_is_open_by_the_share_of_noise(share: float) -> None:
    """30 dB are an error of 3.16 % of the norm; without the noise it may be smaller by the noise's share."""
    noise = SelfDifference("a", 8, share, 0.0, 0.0)
    error = 10 ** (-30 / 20)
    best = -20 * math.log10(error - share)
    if share > 1e-6:
        assert only(Limits(min_sqnr_db=30.0 + 0.9 * (best - 30.0)), noise).status is Status.INCONCLUSIVE
    assert only(Limits(min_sqnr_db=best + 0.5), noise).status is Status.FAIL


def test_other_limits_are_left_alone() -> None:
    """Size, coverage and latency do not follow from outputs."""
    kept = Verdict("max_size_mb", 1.0, 0.9, Status.PASS, "fine")
    assert list(within_itself([kept], evaluated(), [NOISE])) == [kept]
