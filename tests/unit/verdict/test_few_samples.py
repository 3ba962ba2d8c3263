"""Where one sample weighs more than a limit leaves, the interval decides, and not the score of the few samples."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_quant.result import AccuracyResult, Interval, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.stats.paired import tango_interval
from pytest_quant.verdict.accuracy_limits import accuracy_verdicts


def evaluated(n: int, lost: int = 0, won: int = 0, right: int | None = None) -> AccuracyResult:
    """Return top1 of `n` samples, of which the reference gets `right` right, all by default."""
    right = n if right is None else right
    low, high = tango_interval(lost, won, n)
    return AccuracyResult(
        n=n,
        metric="top1",
        unit="%",
        better="higher",
        reference=100 * right / n,
        candidate=100 * (right - lost + won) / n,
        drop=100 * (lost - won) / n,
        drop_ci=Interval(100 * low, 100 * high),
        discordant=lost + won,
        agreement_pct=100 * (n - lost - won) / n,
        sample_weight=100 / n,
    )


def only(limits: Limits, accuracy: AccuracyResult) -> Verdict:
    """Return the single verdict that `limits` asks for."""
    (verdict,) = accuracy_verdicts(limits, accuracy, None)
    return verdict


def test_one_sample_is_no_pass_of_a_drop_of_five_points() -> None:
    """Its interval is 79 points wide on both sides; twenty samples would move in steps of 5."""
    verdict = only(Limits(max_drop=5.0), evaluated(1))
    assert (verdict.status, verdict.observed) == (Status.INCONCLUSIVE, 0.0)
    assert verdict.reason == (
        "the 95% interval [-79.35, 79.35] pp encloses 5.0 pp with 1 sample; the only sample weighs 100 pp, more than "
        "the limit leaves; 20 samples would do"
    )


def test_a_set_of_usual_size_is_judged_on_its_score() -> None:
    """Of 898 samples one weighs 0.11 points: a drop of 0.9 is within 1, whatever the interval."""
    assert only(Limits(max_drop=1.0), evaluated(898, lost=8)).status is Status.PASS
    assert only(Limits(max_drop=1.0), evaluated(898, lost=9)).status is Status.FAIL
    assert only(Limits(max_drop=1.0), evaluated(100)).status is Status.PASS


def test_the_interval_decides_on_few_samples() -> None:
    """Three of four lost fail a limit of 10, sixty without a loss pass one of 80, which one sample of one does not."""
    assert only(Limits(max_drop=10.0), evaluated(9, lost=8)).status is Status.FAIL
    assert only(Limits(max_drop=10.0), evaluated(9, lost=1)).status is Status.INCONCLUSIVE
    assert only(Limits(max_drop=80.0), evaluated(1)).status is Status.PASS


@given(n=st.integers(1, 300), share=st.floats(0, 1), allowed=st.floats(0.01, 50))
def test_a_drop_is_judged_on_the_score_exactly_where_a_sample_fits_into_the_limit(
    n: int, share: float, allowed: float
) -> None:
    """Then a drop above the limit fails; else only an interval beyond it does."""
    accuracy = evaluated(n, lost=int(share * n))
    status = only(Limits(max_drop=allowed), accuracy).status
    assert accuracy.drop is not None
    assert accuracy.drop_ci is not None
    if math.isclose(100 / n, allowed, rel_tol=1e-6) or math.isclose(accuracy.drop, allowed, rel_tol=1e-6):
        return
    if 100 / n < allowed:
        assert status is (Status.FAIL if accuracy.drop > allowed else Status.PASS)
    elif accuracy.drop_ci.low > allowed:
        assert status is Status.FAIL
    else:
        assert status is (Status.PASS if accuracy.drop_ci.high <= allowed else Status.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("n", "lost", "status"),
    [(898, 0, Status.PASS), (898, 1, Status.FAIL), (99, 0, Status.INCONCLUSIVE), (99, 1, Status.FAIL)],
)
def test_a_limit_without_room_is_about_the_samples_themselves(n: int, lost: int, status: Status) -> None:
    """One that is lost breaks it; that none was is a pass from a hundred samples on."""
    for limits in (Limits(max_drop=0.0), Limits(min_agreement=100.0), Limits(min_ratio=1.0)):
        verdict = only(limits, evaluated(n, lost=lost))
        assert verdict.status is status
        assert ("; 100 samples would do" in verdict.reason) is (status is Status.INCONCLUSIVE)


def test_a_score_without_bounds_needs_more_than_one_sample() -> None:
    """How much one of them weighs nobody knows."""
    mae = AccuracyResult(n=2, metric="mae", unit="", better="lower", reference=0.1, candidate=0.1, drop=0.0)
    assert only(Limits(max_drop=1.0), mae).status is Status.PASS
    verdict = only(Limits(max_drop=1.0), replace(mae, n=1))
    assert verdict.status is Status.INCONCLUSIVE
    assert "a single sample says nothing about others" in verdict.reason


@pytest.mark.parametrize(
    ("n", "agreeing", "allowed", "status"),
    [
        (1, 1, 50.0, Status.INCONCLUSIVE),
        (20, 20, 99.0, Status.INCONCLUSIVE),
        (20, 12, 99.0, Status.FAIL),
        (100, 99, 99.0, Status.PASS),
        (100, 98, 99.0, Status.FAIL),
        (898, 890, 99.0, Status.PASS),
        (898, 898, 100.0, Status.PASS),
    ],
)
def test_agreement_on_few_samples_is_judged_on_its_interval(
    n: int, agreeing: int, allowed: float, status: Status
) -> None:
    """A limit of 99 leaves one point, one of a hundred samples. The interval is SciPy's Wilson interval."""
    verdict = only(Limits(min_agreement=allowed), replace(evaluated(n), agreement_pct=100 * agreeing / n))
    assert verdict.status is status
    if 100 / n > 100 - allowed > 0:
        ends = scipy_stats.binomtest(agreeing, n).proportion_ci(0.95, method="wilson")
        assert f"[{100 * ends.low:.4g}, {100 * ends.high:.4g}]" in verdict.reason


@pytest.mark.parametrize(
    ("n", "right", "status"), [(3, 3, Status.INCONCLUSIVE), (4, 0, Status.FAIL), (5, 4, Status.PASS)]
)
def test_the_references_own_score_on_few_samples_is_judged_on_its_interval(n: int, right: int, status: Status) -> None:
    """A limit of 80 leaves 20 points, one of five samples. That of a candidate that loses nothing is judged alike."""
    for limits in (Limits(min_reference_accuracy=80.0), Limits(min_accuracy=80.0)):
        assert only(limits, evaluated(n, right=right)).status is status


@given(n=st.integers(1, 200), share=st.floats(0, 1), allowed=st.floats(0.01, 99.9), lower=st.booleans())
def test_the_candidates_own_score_is_judged_as_the_drop_is(n: int, share: float, allowed: float, lower: bool) -> None:
    """On the score where one sample fits into the limit, else on SciPy's Wilson interval; of errors it is the most."""
    right = int(share * n)
    room = allowed if lower else 100 - allowed
    accuracy = replace(evaluated(n, lost=n - right), better="lower" if lower else "higher")
    status = only(Limits(min_accuracy=allowed), accuracy).status
    score = 100 * right / n
    if math.isclose(100 / n, room, rel_tol=1e-6) or math.isclose(score, allowed, rel_tol=1e-6):
        return
    ends = [100 * end for end in scipy_stats.binomtest(right, n).proportion_ci(0.95, method="wilson")]
    passes, fails = (ends[1] <= allowed, ends[0] > allowed) if lower else (ends[0] >= allowed, ends[1] < allowed)
    if 100 / n < room:
        passes, fails = (score <= allowed, score > allowed) if lower else (score >= allowed, score < allowed)
    assert status is (Status.PASS if passes else Status.FAIL if fails else Status.INCONCLUSIVE)


def test_a_ratio_leaves_the_drop_that_it_allows() -> None:
    """0.99 of a score of 100 is a drop of one point: too little for 50 samples, enough for 100."""
    assert only(Limits(min_ratio=0.99), evaluated(100, lost=1)).status is Status.PASS
    assert only(Limits(min_ratio=0.99), evaluated(50)).status is Status.INCONCLUSIVE
    verdict = only(Limits(min_ratio=0.99), evaluated(50, lost=40))
    assert verdict.status is Status.FAIL
    assert verdict.observed == pytest.approx(0.2)
