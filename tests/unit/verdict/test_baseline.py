"""Each verdict against a baseline whole, and the sentence that the reader gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.result import AccuracyResult, Baseline, NoBaseline, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.baseline import baseline_verdicts
from tests.unit.verdict.test_accuracy import TOP1
from tests.unit.verdict.test_latency import timed
from tests.unit.verdict.test_proof import ACCEPTED

PASS, FAIL, INCONCLUSIVE, NO_BASELINE = Status.PASS, Status.FAIL, Status.INCONCLUSIVE, Status.NO_BASELINE
ACCEPT = "; accept a record: pytest-quant accept"
NO_SCORE = AccuracyResult(n=10)
EARLIER = f"[{0.0:.2f}, {25.0:.2f}] against cccccccccccc"
OF_SLOWDOWN = [
    # A speedup of 1.5 before; now 1.35 within [1.2, 1.5]: lost are 1.5 / 1.35 - 1, of 0 to 25 %.
    (25.0, ACCEPTED, PASS, f"slowdown 11.11 % {EARLIER} lies within 25.0 %"),
    (5, ACCEPTED, INCONCLUSIVE, f"slowdown 11.11 % {EARLIER} encloses 5 %"),
    (0.0, ACCEPTED, INCONCLUSIVE, f"slowdown 11.11 % {EARLIER} encloses 0.0 %"),
    (-1.0, ACCEPTED, FAIL, f"slowdown 11.11 % {EARLIER} lies above -1.0 %"),
    (5, None, NO_BASELINE, f"no record of this series was accepted{ACCEPT}"),
    (5, NoBaseline("it is not known"), NO_BASELINE, f"it is not known{ACCEPT}"),
    *(
        (
            5,
            baseline,
            NO_BASELINE,
            f"the baseline of cccccccccccc was timed on another machine or in another way, or not at all{ACCEPT}",
        )
        for baseline in (replace(ACCEPTED, speedup=None), replace(ACCEPTED, same_identity=False))
    ),
]


@pytest.mark.parametrize(("allowed", "baseline", "status", "reason"), OF_SLOWDOWN)
def test_limits_on_the_slowdown(
    allowed: float, baseline: Baseline | NoBaseline | None, status: Status, reason: str
) -> None:
    """The interval's ends change places, for a larger speedup is a smaller slowdown."""
    (found,) = baseline_verdicts(Limits(max_slowdown=allowed), TOP1, timed(1.2, 1.5), baseline)
    assert (found.limit, found.allowed, found.status, found.reason) == ("max_slowdown", allowed, status, reason)
    assert found.observed == (None if status is NO_BASELINE else pytest.approx(100.0 * (1.5 / 1.35 - 1.0)))


def test_a_slowdown_that_is_not_to_be_judged() -> None:
    """Latency that is off, and latency with reasons against it."""
    limits = Limits(max_slowdown=5)
    (found,) = baseline_verdicts(limits, TOP1, None, ACCEPTED)
    assert found == Verdict("max_slowdown", 5, None, INCONCLUSIVE, "not measured: latency measurement is off")
    (found,) = baseline_verdicts(limits, TOP1, timed(1.5, 1.5, reasons=("a", "b")), ACCEPTED)
    assert found == Verdict("max_slowdown", 5, 0.0, INCONCLUSIVE, "the timing is not to be trusted: a; b")


OF_INCREASE = [
    (TOP1, replace(ACCEPTED, drop=0.25), 0.25, PASS, "0.25 pp is within 0.5 pp"),
    (TOP1, replace(ACCEPTED, drop=-0.5), 1.0, FAIL, "1 pp is above 0.5 pp"),
    (
        TOP1,
        replace(ACCEPTED, drop=0.25, own_drop=1.25, counted="on 150 common samples"),
        1.0,
        FAIL,
        "1 pp is above 0.5 pp, on 150 common samples",
    ),
    (NO_SCORE, ACCEPTED, None, INCONCLUSIVE, "not measured: no metric could be computed"),
    (TOP1, None, None, NO_BASELINE, f"no record of this series was accepted{ACCEPT}"),
    (TOP1, NoBaseline("other data"), None, NO_BASELINE, f"other data{ACCEPT}"),
    (TOP1, replace(ACCEPTED, drop=None), None, NO_BASELINE, f"the baseline of cccccccccccc has no drop{ACCEPT}"),
]


@pytest.mark.parametrize(("accuracy", "baseline", "observed", "status", "reason"), OF_INCREASE)
def test_limits_on_the_increase_of_the_drop(
    accuracy: AccuracyResult,
    baseline: Baseline | NoBaseline | None,
    observed: float | None,
    status: Status,
    reason: str,
) -> None:
    """Where both sides were counted anew on the samples they share, by that drop, and the reader learns of it."""
    (found,) = baseline_verdicts(Limits(max_drop_increase=0.5), accuracy, None, baseline)
    assert found == Verdict("max_drop_increase", 0.5, observed, status, reason)
