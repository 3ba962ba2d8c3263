"""Limits on latency: each verdict whole, and the sentence that the reader gets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.result import (
    Blocks,
    Interval,
    LatencyResult,
    OverLaunches,
    PercentileBound,
    Status,
    TokenTime,
    Verdict,
)
from pytest_quant.spec import Limits
from pytest_quant.verdict import Judge
from pytest_quant.verdict.latency_limits import latency_verdicts
from tests.unit.record.examples import LATENCY

PASS, FAIL, INCONCLUSIVE = Status.PASS, Status.FAIL, Status.INCONCLUSIVE
OFF = "the null is off: a second session of the reference took [1.048, 1.064] times as long as the first"


def _bounds(*bounds: tuple[float, float, float | None]) -> tuple[PercentileBound, ...]:
    return tuple(PercentileBound(*bound) for bound in bounds)


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
        percentile_bounds=_bounds((50.0, 1.9, 2.1), (90.0, 2.1, 2.4), (99.0, 2.3, None)),
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
    expected = PASS if low >= allowed else FAIL if low + width < allowed else INCONCLUSIVE
    assert status is expected


def test_a_second_measurement_that_agrees_lets_a_fail_stand() -> None:
    """Slow twice is slow."""
    assert only(Limits(min_speedup=1.0), replace(timed(0.8, 0.9), repeat=timed(0.8, 0.9))).status is FAIL


def off(latency: LatencyResult, null: Interval) -> LatencyResult:
    """Return a latency beside a null of this interval, which is off."""
    return replace(latency, null_ratio_ci=null, reasons=(OFF,))


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        (Limits(min_speedup=0.3), PASS),
        (Limits(min_speedup=0.77), INCONCLUSIVE),
        (Limits(min_speedup=0.87), INCONCLUSIVE),
        (Limits(min_speedup=1.5), FAIL),
        (Limits(max_latency_ms=((50.0, 20.0),)), PASS),
        (Limits(max_latency_ms=((50.0, 2.2),)), INCONCLUSIVE),
        (Limits(max_latency_ms=((90.0, 100.0),)), PASS),
        (Limits(max_latency_ms=((90.0, 2.0),)), INCONCLUSIVE),
        (Limits(max_latency_ms=((99.0, 2.0),)), FAIL),
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
    assert all(now in (then, INCONCLUSIVE) for then, now in zip(before, after, strict=True))
    unmoved = off(sound, Interval(1.0, 1.0))
    assert [verdict.status for verdict in latency_verdicts(limits, unmoved)] == before


def test_a_reason_says_what_was_timed_by_which_clock() -> None:
    """Exact FP32 by the host's clock is what nobody needs to be told."""
    latency = replace(timed(1.5, 1.7), clock="device", reference_precision="fp16")
    assert only(Limits(min_speedup=2.0), latency).reason == (
        "speedup x1.600 [1.500, 1.700] against fp16 over 8 rounds by the device's clock lies below x2.0"
    )
    assert only(Limits(max_latency_ms=((50.0, 2.5),)), latency).reason == (
        "p50 [1.9, 2.1] ms by the device's clock lies within 2.5 ms"
    )


def with_tokens(low: float, high: float) -> LatencyResult:
    """Return a latency whose first token comes after [low, high] ms."""
    return replace(timed(1.5, 1.7), tokens=(TokenTime("ttft", 9.0, (low + high) / 2, Interval(low, high)),))


@pytest.mark.parametrize(
    ("allowed", "status", "relation"),
    [(3.0, PASS, "lies within"), (2.5, INCONCLUSIVE, "encloses"), (1.5, FAIL, "lies above")],
)
def test_times_of_tokens_are_judged_on_their_intervals(allowed: float, status: Status, relation: str) -> None:
    """As every time is; a FAIL takes a second measurement that agrees, and an off null widens the interval."""
    latency = with_tokens(2.0, 3.0)
    verdict = only(Limits(max_ttft_ms=allowed), latency)
    assert verdict == Verdict("max_ttft_ms", allowed, 2.5, status, f"median [2, 3] ms {relation} {allowed} ms")
    doubted = only(Limits(max_ttft_ms=allowed), replace(latency, repeat=with_tokens(1.0, 1.2)))
    assert doubted.status is (INCONCLUSIVE if status is FAIL else status)
    beside = only(Limits(max_ttft_ms=allowed), off(latency, Interval(1.048, 1.6)))
    assert beside.status is INCONCLUSIVE


def test_times_of_tokens_that_nobody_measured() -> None:
    """Without a stream, and without timing."""
    assert "streams=True" in only(Limits(max_tpot_ms=1.0), with_tokens(2.0, 3.0)).reason
    assert only(Limits(max_tpot_ms=1.0), None).reason == "not measured: latency measurement is off"


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
    (Limits(max_latency_ms=((99.0, 2),)), 2.3, FAIL, "p99 at least 2.3 ms lies above 2 ms"),
    (Limits(max_latency_ms=((99.0, 9.0),)), None, INCONCLUSIVE, f"not measured: {TOO_FEW.format(99, 299)}"),
    (Limits(max_latency_ms=((99.5, 9.0),)), None, INCONCLUSIVE, f"not measured: {TOO_FEW.format(99.5, 598)}"),
]
BOUNDED = replace(
    timed(1.4, 1.6), percentile_bounds=(*timed(1.4, 1.6).percentile_bounds, PercentileBound(95.0, 2.5, 2.75))
)


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
    bounds = _bounds((50.0, 1.9, 2.1), (99.0, 2.3, 2.9))
    verdicts = list(
        latency_verdicts(
            Limits(max_latency_ms=((99.0, 3.0),)),
            replace(BOUNDED, candidate_p99_ms=2.5, percentile_bounds=bounds),
        )
    )
    assert verdicts == [Verdict("max_latency_ms[p99]", 3.0, 2.5, PASS, "p99 [2.3, 2.9] ms lies within 3.0 ms")]


@pytest.mark.parametrize("limits", [Limits(min_speedup=2.0), Limits(max_latency_ms=((50.0, 1.5),))])
@pytest.mark.parametrize(
    ("latency", "status", "reason"),
    [
        (None, INCONCLUSIVE, "not measured: --benchmark-disable"),
        (
            replace(BOUNDED, rounds=5, reasons=("a", "b")),
            INCONCLUSIVE,
            "the timing is not to be trusted: a; b",
        ),
        (
            replace(BOUNDED, repeat=replace(BOUNDED, rounds=5, reasons=("c", "d"))),
            INCONCLUSIVE,
            "the second measurement is not to be trusted: c; d",
        ),
    ],
)
def test_latency_that_is_not_to_be_judged(
    limits: Limits, latency: LatencyResult | None, status: Status, reason: str
) -> None:
    """Every reason is told; a figure that was found is kept."""
    (verdict,) = latency_verdicts(limits, latency, "--benchmark-disable")
    observed = None if latency is None else 1.5 if limits.min_speedup else 2.0
    assert verdict == Verdict(*latency_limit(limits), observed, status, reason)


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
    repeat = replace(timed(1.8, 2.0), percentile_bounds=_bounds((50.0, 1.0, 1.25)))
    (verdict,) = latency_verdicts(limits, replace(BOUNDED, repeat=repeat))
    assert verdict.status is INCONCLUSIVE
    assert verdict.reason == f"{first}, but a second measurement disagrees: {again}"


OVER = OverLaunches(5, 1.5, Interval(1.4, 1.6), 0.25, Interval(0.24, 0.26))
LAUNCHED = replace(LATENCY, over=OVER)


def test_launches_are_judged_together() -> None:
    """By the interval over all of them, whatever the first one says; other percentiles are those of the first."""
    limits = Limits(min_speedup=1.5, max_latency_ms=((50.0, 0.25), (99.0, 0.1)))
    median, p99, speedup = latency_verdicts(limits, LAUNCHED)
    assert (speedup.status, speedup.observed) == (INCONCLUSIVE, 1.5)
    assert speedup.reason == "speedup x1.500 [1.400, 1.600] over 5 launches encloses x1.5"
    assert (median.status, median.observed) == (INCONCLUSIVE, 0.25)
    assert median.reason == "p50 [0.24, 0.26] ms over 5 launches encloses 0.25 ms"
    assert p99 == next(latency_verdicts(Limits(max_latency_ms=((99.0, 0.1),)), LATENCY))


@pytest.mark.parametrize(
    ("limits", "doubt"),
    [
        (Limits(min_speedup=1.95), True),
        (Limits(min_speedup=1.0), False),
        (Limits(max_latency_ms=((50.0, 0.2345),)), True),
        (Limits(max_latency_ms=((99.0, 0.5),)), False),
        (Limits(max_slowdown=3.0), False),
        (Limits(), False),
    ],
)
def test_doubt_that_launches_can_settle(limits: Limits, doubt: bool) -> None:
    """An undecided limit on what each launch tells; a percentile is none, and neither is one without a baseline."""
    assert Judge(limits, "nothing was accepted").undecided(LATENCY) is doubt


def test_launches_settle_no_percentile_but_the_median() -> None:
    """The verdict on p99 stays undecided, and is that of the first launch."""
    bounded = replace(LATENCY, percentile_bounds=(PercentileBound(99.0, 0.29, 0.4),))
    limits = Limits(max_latency_ms=((99.0, 0.3),))
    (verdict,) = latency_verdicts(limits, bounded)
    assert (verdict.status, verdict.observed is not None) == (INCONCLUSIVE, True)
    assert not Judge(limits).undecided(bounded)
