"""Limits on latency."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.result import Blocks, Interval, LatencyResult, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.latency import latency_verdicts

OFF = "the null is off: a second session of the reference took [1.048, 1.064] times as long as the first"


def timed(low: float, high: float, *, reasons: tuple[str, ...] = ()) -> LatencyResult:
    """Return a latency whose speedup has the interval [low, high]; p50 is 2 ms [1.9, 2.1]."""
    runs = Blocks(runs_ns=((2_000_000,) * 4,) * 8)
    return LatencyResult(
        batch_size=1,
        rounds=8,
        reference=runs,
        null=runs,
        candidate=runs,
        reference_p50_ms=3.0,
        candidate_p50_ms=2.0,
        candidate_p90_ms=2.2,
        candidate_p99_ms=None,
        percentile_bounds_ms=((50.0, 1.9, 2.1), (90.0, 2.1, 2.4), (99.0, 2.3, None)),
        speedup=(low + high) / 2,
        speedup_ci=Interval(low, high),
        null_ratio_ci=Interval(0.99, 1.01),
        half_width_pct=1.0,
        reasons=reasons,
    )


def only(limits: Limits, latency: LatencyResult | None, off: str = "") -> Verdict:
    """Return the single verdict that `limits` asks for."""
    (verdict,) = latency_verdicts(limits, latency, off)
    return verdict


@given(low=st.floats(0.1, 5), width=st.floats(0, 2), allowed=st.floats(0.1, 5))
def test_speedup_is_judged_on_the_interval(low: float, width: float, allowed: float) -> None:
    """At or above the limit passes, below it fails, across it is inconclusive."""
    status = only(Limits(min_speedup=allowed), timed(low, low + width)).status
    expected = Status.PASS if low >= allowed else Status.FAIL if low + width < allowed else Status.INCONCLUSIVE
    assert status is expected


def test_a_second_measurement_that_disagrees_makes_a_fail_inconclusive() -> None:
    """One bad measurement fails nobody."""
    first = replace(timed(0.8, 0.9), repeat=timed(1.1, 1.2))
    verdict = only(Limits(min_speedup=1.0), first)
    assert verdict.status is Status.INCONCLUSIVE
    assert "second measurement" in verdict.reason


def test_a_second_measurement_that_agrees_lets_a_fail_stand() -> None:
    """Slow twice is slow."""
    assert only(Limits(min_speedup=1.0), replace(timed(0.8, 0.9), repeat=timed(0.8, 0.9))).status is Status.FAIL


@pytest.mark.parametrize("interval", [(0.8, 0.9), (1.1, 1.2)])
def test_a_named_reason_decides_nothing(interval: tuple[float, float]) -> None:
    """Neither a pass nor a fail comes from numbers with a reason against them, and the reason is told."""
    verdict = only(Limits(min_speedup=1.0), timed(*interval, reasons=("too few rounds", OFF)))
    assert verdict.status is Status.INCONCLUSIVE
    assert "too few rounds" in verdict.reason


def off(latency: LatencyResult, null: Interval) -> LatencyResult:
    """Return a latency beside a null of this interval, which is off."""
    return replace(latency, null_ratio_ci=null, reasons=(OFF,))


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        (Limits(min_speedup=0.3), Status.PASS),
        (Limits(min_speedup=0.77), Status.INCONCLUSIVE),
        (Limits(min_speedup=0.87), Status.INCONCLUSIVE),
        (Limits(min_speedup=1.5), Status.FAIL),
        (Limits(max_latency_ms=((50.0, 20.0),)), Status.PASS),
        (Limits(max_latency_ms=((50.0, 2.2),)), Status.INCONCLUSIVE),
        (Limits(max_latency_ms=((90.0, 100.0),)), Status.PASS),
        (Limits(max_latency_ms=((90.0, 2.0),)), Status.INCONCLUSIVE),
        (Limits(max_latency_ms=((99.0, 2.0),)), Status.FAIL),
    ],
)
def test_a_limit_beyond_what_an_off_null_explains_is_decided(limits: Limits, status: Status) -> None:
    """Sessions that differ by 6.4 % turn no 2 ms into 20 ms; a limit that they may reach stays open."""
    verdict = only(limits, off(timed(0.81, 0.83), Interval(1.048, 1.064)))
    assert verdict.status is status
    assert verdict.reason.endswith("; the interval is 6.4 % wider to either side, for the null is off")


@given(low=st.floats(0.1, 5), width=st.floats(1, 2), ends=st.tuples(st.floats(0.5, 2), st.floats(0.5, 2)),
       again=st.floats(0.5, 2), allowed=st.floats(0.1, 10))  # fmt: skip
def test_an_off_null_only_opens_verdicts(
    low: float, width: float, ends: tuple[float, float], again: float, allowed: float
) -> None:
    """It turns no FAIL into a PASS nor the reverse; one that is not off by anything changes no status."""
    sound = timed(low, low * width)
    sound = replace(sound, repeat=timed(low * again, low * width * again))
    null = Interval(min(ends), max(ends))
    tails = tuple((percentile, allowed) for percentile in (50.0, 90.0, 99.0))
    limits = Limits(min_speedup=allowed, max_latency_ms=tails)
    before = [verdict.status for verdict in latency_verdicts(limits, sound)]
    after = [verdict.status for verdict in latency_verdicts(limits, off(sound, null))]
    assert all(now in (then, Status.INCONCLUSIVE) for then, now in zip(before, after, strict=True))
    unmoved = off(sound, Interval(1.0, 1.0))
    assert [verdict.status for verdict in latency_verdicts(limits, unmoved)] == before


def test_a_reason_against_the_second_measurement_decides_nothing() -> None:
    """A noisy confirmation confirms nothing."""
    first = replace(timed(0.8, 0.9), repeat=timed(0.8, 0.9, reasons=("CPU time was stolen",)))
    assert only(Limits(min_speedup=1.0), first).status is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("percentile", "allowed", "status"),
    [
        (50.0, 2.2, Status.PASS),
        (50.0, 1.8, Status.FAIL),
        (50.0, 2.0, Status.INCONCLUSIVE),
        (90.0, 2.5, Status.PASS),
        (99.0, 2.0, Status.FAIL),
        (99.0, 9.0, Status.INCONCLUSIVE),
        (95.0, 9.0, Status.INCONCLUSIVE),
    ],
)
def test_percentiles_are_judged_on_their_bounds(percentile: float, allowed: float, status: Status) -> None:
    """A percentile with too few runs for its upper bound never passes, however generous the limit."""
    assert only(Limits(max_latency_ms=((percentile, allowed),)), timed(1.4, 1.6)).status is status


def test_latency_that_is_off_is_not_measured() -> None:
    """A latency limit under --quant-no-latency is inconclusive and says why."""
    for limits in (Limits(min_speedup=1.0), Limits(max_latency_ms=((50.0, 5.0),))):
        verdict = only(limits, None, "--benchmark-disable")
        assert verdict.status is Status.INCONCLUSIVE
        assert "--benchmark-disable" in verdict.reason


def test_a_reason_says_what_was_timed_by_which_clock() -> None:
    """Exact FP32 by the host's clock is what nobody needs to be told."""
    latency = replace(timed(1.5, 1.7), clock="device", reference_precision="fp16")
    assert only(Limits(min_speedup=2.0), latency).reason == (
        "speedup x1.600 [1.500, 1.700] against fp16 over 8 rounds by the device's clock lies below x2.0"
    )
    assert only(Limits(max_latency_ms=((50.0, 2.5),)), latency).reason == (
        "p50 [1.9, 2.1] ms by the device's clock lies within 2.5 ms"
    )
