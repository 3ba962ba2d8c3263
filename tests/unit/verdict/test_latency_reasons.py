"""Each verdict on latency whole, and the sentence that the reader gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.result import LatencyResult, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.latency import latency_verdicts
from tests.unit.verdict.test_latency import timed

PASS, FAIL, INCONCLUSIVE = Status.PASS, Status.FAIL, Status.INCONCLUSIVE
TOO_FEW = "p{} takes {} rounds to bound, and there was time for 8: --quant-max-time gives more"
OF_LATENCY = [
    (Limits(min_speedup=1.4), 1.5, PASS, "speedup x1.500 [1.400, 1.600] over 8 rounds reaches x1.4"),
    (Limits(min_speedup=1.5), 1.5, INCONCLUSIVE, "speedup x1.500 [1.400, 1.600] over 8 rounds encloses x1.5"),
    (Limits(min_speedup=1.6), 1.5, INCONCLUSIVE, "speedup x1.500 [1.400, 1.600] over 8 rounds encloses x1.6"),
    (Limits(min_speedup=2), 1.5, FAIL, "speedup x1.500 [1.400, 1.600] over 8 rounds lies below x2"),
    (Limits(max_latency_ms=((50.0, 2.1),)), 2.0, PASS, "p50 [1.9, 2.1] ms lies within 2.1 ms"),
    (Limits(max_latency_ms=((50.0, 1.9),)), 2.0, INCONCLUSIVE, "p50 [1.9, 2.1] ms encloses 1.9 ms"),
    (Limits(max_latency_ms=((50.0, 1.5),)), 2.0, FAIL, "p50 [1.9, 2.1] ms lies above 1.5 ms"),
    (Limits(max_latency_ms=((90.0, 2.4),)), 2.2, PASS, "p90 [2.1, 2.4] ms lies within 2.4 ms"),
    (Limits(max_latency_ms=((95.0, 3.0),)), 2.75, PASS, "p95 [2.5, 2.75] ms lies within 3.0 ms"),
    (Limits(max_latency_ms=((99.0, 2),)), 2.3, FAIL, "p99 ms lies above 2 ms"),
    (Limits(max_latency_ms=((99.0, 9.0),)), None, INCONCLUSIVE, f"not measured: {TOO_FEW.format(99, 299)}"),
    (Limits(max_latency_ms=((99.5, 9.0),)), None, INCONCLUSIVE, f"not measured: {TOO_FEW.format(99.5, 598)}"),
]
BOUNDED = replace(timed(1.4, 1.6), percentile_bounds_ms=(*timed(1.4, 1.6).percentile_bounds_ms, (95.0, 2.5, 2.75)))


def latency_limit(limits: Limits) -> tuple[str, float]:
    """Return the name and the number of the one limit on latency that is set."""
    if limits.min_speedup is not None:
        return "min_speedup", limits.min_speedup
    ((percentile, allowed),) = limits.max_latency_ms
    return ("max_latency_ms" if percentile == 50 else f"max_latency_ms[p{percentile:g}]"), allowed


@pytest.mark.parametrize(("limits", "observed", "status", "reason"), OF_LATENCY)
def test_limits_on_latency(limits: Limits, observed: float | None, status: Status, reason: str) -> None:
    """The figure is the percentile where there is one, and a bound of it where there is none."""
    assert list(latency_verdicts(limits, BOUNDED)) == [Verdict(*latency_limit(limits), observed, status, reason)]


def test_the_figure_of_p99_is_the_measured_one() -> None:
    """Where it was measured, and not its bound."""
    bounds = ((50.0, 1.9, 2.1), (99.0, 2.3, 2.9))
    found = list(
        latency_verdicts(
            Limits(max_latency_ms=((99.0, 3.0),)),
            replace(BOUNDED, candidate_p99_ms=2.5, percentile_bounds_ms=bounds),
        )
    )
    assert found == [Verdict("max_latency_ms[p99]", 3.0, 2.5, PASS, "p99 [2.3, 2.9] ms lies within 3.0 ms")]


@pytest.mark.parametrize("limits", [Limits(min_speedup=2.0), Limits(max_latency_ms=((50.0, 1.5),))])
@pytest.mark.parametrize(
    ("latency", "status", "reason"),
    [
        (None, INCONCLUSIVE, "not measured: latency measurement is off"),
        (
            replace(BOUNDED, reasons=("a", "b")),
            INCONCLUSIVE,
            "the timing is not to be trusted: a; b",
        ),
        (
            replace(BOUNDED, repeat=replace(BOUNDED, reasons=("c", "d"))),
            INCONCLUSIVE,
            "the second measurement is not to be trusted: c; d",
        ),
    ],
)
def test_latency_that_is_not_to_be_judged(
    limits: Limits, latency: LatencyResult | None, status: Status, reason: str
) -> None:
    """Every reason is told; a figure that was found is kept."""
    (found,) = latency_verdicts(limits, latency)
    observed = None if latency is None else 1.5 if limits.min_speedup else 2.0
    assert found == Verdict(*latency_limit(limits), observed, status, reason)


@pytest.mark.parametrize(
    ("limits", "first", "again"),
    [
        (
            Limits(min_speedup=1.7),
            "speedup x1.500 [1.400, 1.600] over 8 rounds lies below x1.7",
            "speedup x1.900 [1.800, 2.000] over 8 rounds reaches x1.7",
        ),
        (
            Limits(max_latency_ms=((50.0, 1.5),)),
            "p50 [1.9, 2.1] ms lies above 1.5 ms",
            "p50 [1, 1.25] ms lies within 1.5 ms",
        ),
    ],
)
def test_a_second_measurement_that_disagrees(limits: Limits, first: str, again: str) -> None:
    """Both are told."""
    repeat = replace(timed(1.8, 2.0), percentile_bounds_ms=((50.0, 1.0, 1.25),))
    (found,) = latency_verdicts(limits, replace(BOUNDED, repeat=repeat))
    assert found.status is INCONCLUSIVE
    assert found.reason == f"{first}, but a second measurement disagrees: {again}"
