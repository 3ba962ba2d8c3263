"""The interleaved measurement, on simulated time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_quant.measure.interleave import ByDevice
from pytest_quant.measure.latency_figures import MachineState
from pytest_quant.result import LatencyResult, Status
from pytest_quant.spec import LatencyPlan, Limits
from pytest_quant.stats.ratio import runs_needed
from pytest_quant.verdict.latency_limits import latency_verdicts
from tests.unit.measure.simulated import SimulatedTime

PLAN = LatencyPlan()


def timed(
    reference_ms: float, candidate_ms: float, plan: LatencyPlan = PLAN, time: SimulatedTime | None = None
) -> LatencyResult:
    """Measure engines of known speed; reference and null are equally fast."""
    time = time or SimulatedTime()
    reference, null, candidate = (time.engine(run_ms) for run_ms in (reference_ms, reference_ms, candidate_ms))
    return time.measure(reference, null, candidate, plan)


@given(reference_ms=st.floats(0.01, 50), speedup=st.floats(0.1, 10))
@settings(max_examples=20)
def test_without_noise_every_figure_is_exact(reference_ms: float, speedup: float) -> None:
    """Medians are the engines' times, the speedup their ratio, the null 1."""
    result = timed(reference_ms, reference_ms / speedup)
    assert result.reference_p50_ms == pytest.approx(reference_ms, rel=1e-3)
    assert result.candidate_p50_ms == pytest.approx(reference_ms / speedup, rel=1e-3)
    assert result.speedup == pytest.approx(speedup, rel=1e-3)
    assert (result.null_ratio_ci.low, result.null_ratio_ci.high) == pytest.approx((1.0, 1.0), rel=1e-3)
    assert result.reasons == ()


def test_it_stops_as_soon_as_the_limit_is_decided() -> None:
    """A clear speedup needs the least rounds; noise across the limit takes them all."""
    clear = timed(2.0, 1.0, LatencyPlan(least_speedup=1.5), SimulatedTime(1, noise=0.05))
    close = timed(2.0, 2.0, LatencyPlan(least_speedup=1.0), SimulatedTime(1, noise=0.05))
    assert clear.rounds == PLAN.min_rounds
    assert close.rounds == PLAN.max_rounds


def test_a_null_that_is_off_is_given_every_round() -> None:
    """More rounds may show that it was not; the limit itself is decided by the least."""
    time = SimulatedTime()
    reference, null, candidate = (time.engine(run_ms) for run_ms in (2.0, 2.2, 1.0))
    result = time.measure(reference, null, candidate, LatencyPlan(least_speedup=1.5))
    assert [reason.partition(":")[0] for reason in result.reasons] == ["the null is off"]
    assert result.rounds == PLAN.max_rounds


@given(run_ms=st.floats(0.05, 30_000), max_s=st.floats(0.0, 30.0), limited=st.booleans())
@settings(max_examples=40)
def test_the_budget_bounds_warming_up_and_all_rounds(run_ms: float, max_s: float, limited: bool) -> None:
    """Nothing is begun that would end later, but the one run of each engine that is made in any case."""
    time = SimulatedTime()
    plan = LatencyPlan(max_s=max_s, least_speedup=1.0 if limited else None)
    result = timed(run_ms, run_ms, plan, time)
    assert time.now_ns / 1e9 <= max(max_s, 3 * run_ms / 1e3) + 1e-6
    assert result.spent_s == pytest.approx(time.now_ns / 1e9)


def test_one_run_longer_than_the_whole_budget_is_told() -> None:
    """Each engine runs once, and the verdict is INCONCLUSIVE for that reason."""
    time = SimulatedTime()
    result = timed(20_000.0, 10_000.0, LatencyPlan(least_speedup=1.5), time)
    assert time.now_ns == 50e9
    assert result.rounds == 1
    assert result.speedup == pytest.approx(2.0)
    assert result.reasons == ("too few rounds within 10 s: 1, and 95 % confidence needs 6",)
    (verdict,) = latency_verdicts(Limits(min_speedup=1.5), result)
    assert verdict.status is Status.INCONCLUSIVE


def test_one_run_by_a_devices_clock_is_not_taken_for_two() -> None:
    """Each call is a run for the host and one for the device; where only one call fits, either clock has one run."""
    time = SimulatedTime()

    def on_device(host_ms: float, device_ms: float) -> ByDevice:
        run = time.engine(host_ms + device_ms)

        def timed() -> float:
            run()
            return device_ms

        return ByDevice(timed)

    calls = (on_device(20_000.0, 12_000.0), on_device(20_000.0, 12_000.0), on_device(10_000.0, 4_000.0))
    result = time.measure(*calls, LatencyPlan(least_speedup=1.5))
    assert (result.clock, result.rounds) == ("device", 1)
    assert (result.reference_p50_ms, result.candidate_p50_ms) == (12_000.0, 4_000.0)
    assert "by the host's p50 2e+04 -> 1e+04 ms" in result.notes[-1]


@pytest.mark.parametrize("max_s", [4.0, 10.0])
def test_load_that_comes_after_warming_up_shortens_blocks(max_s: float) -> None:
    """Runs of a thousandth of the budget take ten times as long from then on; the fewest rounds fit all the same."""
    time = SimulatedTime()
    loads: list[Callable[[], None]] = []  # what runs beside an engine: nothing before the first observation

    def engine() -> Callable[[], None]:
        run = time.engine(max_s)

        def once() -> None:
            run()
            for more in loads:
                more()

        return once

    def begin() -> None:
        if not loads:
            loads.append(time.engine(9 * max_s))

    reference, null, candidate = (engine() for _ in range(3))
    result = time.measure(reference, null, candidate, LatencyPlan(max_s=max_s, least_speedup=0.5), observe=begin)
    assert result.candidate_p50_ms == pytest.approx(10 * max_s)
    assert result.rounds >= PLAN.min_rounds
    assert result.reasons == ()
    assert time.now_ns / 1e9 <= max_s


def test_a_limit_on_p99_gets_the_rounds_it_needs() -> None:
    """Of 473 rounds one may be a freak; the ratio is judged on its 40 all the same."""
    plan = LatencyPlan(least_speedup=1.1, most_ms=((99.0, 1.2),))
    result = timed(1.0, 1.0, plan)
    assert len(result.candidate.runs_ns) == runs_needed(99.0, beyond=1) == 473
    assert {bound.percentile: bound.high_ms for bound in result.percentile_bounds}[99.0] == pytest.approx(1.0)
    assert (result.rounds, result.looks) == (40, 5)


def test_a_limit_on_p99_that_its_time_cannot_tell() -> None:
    """Runs of 20 ms: 299 rounds of three engines take 36 s, so that blocks stay long and nothing is said of p99."""
    plan = LatencyPlan(most_ms=((99.0, 30.0),))
    result = timed(20.0, 20.0, plan)
    assert {bound.percentile: bound.high_ms for bound in result.percentile_bounds}[99.0] is None
    (verdict,) = latency_verdicts(Limits(max_latency_ms=((99.0, 30.0),)), result)
    assert verdict.status is Status.INCONCLUSIVE
    assert "p99 takes 299 rounds to bound" in verdict.reason
    assert len(result.candidate.runs_ns[0]) >= plan.min_runs


def test_a_tail_far_beyond_its_limit_is_told_early() -> None:
    """Every run takes twice as long as one in a hundred may."""
    result = timed(1.0, 1.0, LatencyPlan(most_ms=((99.0, 0.5),)))
    assert result.rounds == PLAN.min_rounds


def test_what_the_machine_did_is_noted() -> None:
    """Notes leave the numbers as they are; only reasons void them."""
    time = SimulatedTime()
    readings = iter([MachineState(0, 0, 0, 0, 0, 2), MachineState(10, 5, 15, 0, 0, 2)])
    engines = time.engine(5.0), time.engine(5.0), time.engine(1.0)
    result = time.measure(*engines, PLAN, machine=lambda: next(readings))
    assert [note.partition(":")[0] for note in result.notes] == ["busy machine"]
    assert result.reasons == ()


def test_the_same_seed_gives_the_same_figures() -> None:
    """Order and bootstrap are drawn from the plan's seed."""
    first, second = (timed(1.0, 0.9, PLAN, SimulatedTime(3, noise=0.1)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_what_is_observed_is_seen_between_rounds_only(noise: float) -> None:
    """Once after the warm-up and once after each round: every engine has then run as often as in the round before."""
    time = SimulatedTime(3, noise=noise)
    runs = [0, 0, 0]
    seen: list[tuple[int, ...]] = []

    def engine(place: int) -> Callable[[], None]:
        run = time.engine(2.0)

        def counted() -> None:
            runs[place] += 1
            run()

        return counted

    def observe() -> None:
        seen.append(tuple(runs))

    result = time.measure(engine(0), engine(1), engine(2), PLAN, observe=observe)
    assert len(seen) == result.rounds + 1
    blocks = (result.reference, result.null, result.candidate)
    for place, block in enumerate(blocks):
        in_round = {after[place] - before[place] for before, after in pairwise(seen)}
        assert in_round == {len(block.runs_ns[0]) + 1}
