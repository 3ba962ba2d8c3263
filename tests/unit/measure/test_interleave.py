"""Blocks with the interpreter kept quiet, warming up, and how many runs make a block."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.errors import QuantError
from pytest_quant.measure.interleave import Block, ByDevice, ByToken, runs_of_block, time_block, warm_up
from pytest_quant.spec import LatencyPlan
from tests.unit.measure.simulated import SimulatedTime

PLAN = LatencyPlan()
NS_PER_MS = 1e6


@pytest.mark.parametrize("call", [lambda: None, ByDevice(lambda: 1.0), ByToken(lambda: [1, 2])])
def test_a_clock_that_stands_still_is_an_error(call: Callable[[], object]) -> None:
    """No ratio, no limit on milliseconds and no percentile means anything then."""
    with pytest.raises(QuantError, match=r"the clock of the host stands still.*\n.*3 of 3 runs took 0 ns"):
        time_block(call, 2, lambda: 5)


def test_a_clock_of_a_device_that_stands_still_is_an_error() -> None:
    """Its times are the ones that are judged, though the host's clock goes on."""
    time = SimulatedTime()
    run = time.engine(1.0)

    def timed() -> float:
        run()
        return 0.0

    with pytest.raises(QuantError, match="the clock of the device stands still"):
        time_block(ByDevice(timed), 3, time.clock)


@given(step_ns=st.integers(1, 10**7), run_ns=st.integers(1, 10**7), began_ns=st.integers(0, 10**7))
def test_a_coarse_clock_serves_runs_that_are_as_long_as_its_steps(step_ns: int, run_ns: int, began_ns: int) -> None:
    """Each time is off by a step at most; runs shorter than half a step mostly take no time, which is an error."""
    real_ns = began_ns

    def run() -> None:
        nonlocal real_ns
        real_ns += run_ns

    def clock() -> int:
        return real_ns // step_ns * step_ns

    if run_ns >= step_ns:
        block = time_block(run, 20, clock)
        assert all(abs(time - run_ns) < step_ns for time in (block.cold_ns, *block.runs_ns))
    elif 2.5 * run_ns < step_ns:
        with pytest.raises(QuantError, match="steps are longer than a run"):
            time_block(run, 20, clock)


def test_the_cold_run_is_apart_from_the_others() -> None:
    """Three runs are timed and one more before them."""
    time = SimulatedTime()
    block = time_block(time.engine(1.0, cold_ms=2.0), 3, time.clock)
    assert (block.cold_ns, block.runs_ns) == (3_000_000, (1_000_000,) * 3)


def test_runs_that_refill_the_caches_are_made_and_not_counted() -> None:
    """A cold run of 3 ms, three of 1 ms, which begin within 5.5 ms of the block, and then the two that count."""
    time = SimulatedTime()
    block = time_block(time.engine(1.0, cold_ms=2.0), 2, time.clock, refill_s=0.0055)
    assert (block.cold_ns, block.runs_ns) == (3_000_000, (1_000_000,) * 2)
    assert time.now_ns == 8_000_000
    assert time_block(time.engine(1.0), 0, time.clock, refill_s=0.0055).runs_ns == ()


def test_a_call_that_tells_its_own_time_is_timed_by_both_clocks() -> None:
    """Each run by the device's, the cold one too; a single one without a time is a nanosecond, so that ratios exist."""
    time = SimulatedTime()
    told_ms = iter((4.0, 0.25, 0.75, 0.0))
    run = time.engine(1.0, cold_ms=2.0)

    def timed() -> float:
        run()
        return next(told_ms)

    block = time_block(ByDevice(timed), 3, time.clock)
    assert (block.cold_ns, block.runs_ns) == (3_000_000, (1_000_000,) * 3)
    assert block.device_ns == (4_000_000, 250_000, 750_000, 1)
    assert block.host_ns == (750_000, 250_000, 999_999)
    without = time_block(run, 1, time.clock)
    assert (without.device_ns, without.host_ns) == ((), without.runs_ns)


def test_a_call_that_tells_its_tokens() -> None:
    """The first one's time, and that of each after it; the cold run's are left out, and what did not come is NaN."""
    came_ns = iter(([9], [40, 60, 100], [0, 0], [50], []))
    block = time_block(ByToken(lambda: next(came_ns)), 4, count().__next__)
    assert block.tokens_ns[:2] == ((40, 30.0), (1.0, 1.0))
    assert (block.tokens_ns[2][0], block.runs_ns, block.device_ns) == (50, (1,) * 4, ())
    assert np.isnan([block.tokens_ns[2][1], *block.tokens_ns[3]]).all()
    assert time_block(lambda: None, 1, count().__next__).tokens_ns == ()


@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)), min_size=1))
def test_the_run_that_the_device_times_is_not_in_the_hosts(runs: list[tuple[int, int]]) -> None:
    """Each call holds one run for either clock: what is left of it is the host's, whatever the device says."""
    host, device = zip(*runs, strict=True)
    calls = tuple(ours + theirs for ours, theirs in runs)
    assert Block(1, calls, (1, *device)).host_ns == host


def test_collection_and_profilers_are_off_inside_and_on_again_outside() -> None:
    """After an interrupt too; what was off before stays off."""
    seen: list[object] = []

    def engine() -> None:
        seen.append((sys.getprofile(), sys.gettrace(), gc.isenabled()))
        if len(seen) == 2:
            raise KeyboardInterrupt

    def profiler(*_: object) -> None:
        """See everything, keep nothing."""

    before = sys.getprofile()
    sys.setprofile(profiler)
    try:
        with pytest.raises(KeyboardInterrupt):
            time_block(engine, 1, SimulatedTime().clock)
        after = sys.getprofile(), gc.isenabled()
    finally:
        sys.setprofile(before)
    assert seen == [(None, None, False)] * 2
    assert after == (profiler, True)


def warmed(engine: Callable[[], None], time: SimulatedTime) -> float:
    """Warm up an engine for a second at most, and return the nanoseconds of a run."""
    return warm_up(partial(time_block, engine, clock=time.clock), PLAN, time.clock)[1]


def test_a_steady_engine_is_warm_after_three_blocks() -> None:
    """One first run, then three blocks that agree: of runs of 5 ms, 4 in a block and one cold one."""
    time = SimulatedTime()
    assert warmed(time.engine(5.0), time) == 5 * NS_PER_MS
    assert time.now_ns == (1 + 3 * 5) * 5 * NS_PER_MS


@pytest.mark.parametrize(("share", "least_ms"), [(0.9, 2.0), (0.99, 0.0)])
def test_an_engine_that_gets_faster_is_not_warm_before_it_stops(share: float, least_ms: float) -> None:
    """Times that shrink with each run are left behind; one that never settles is given up after the time allowed."""
    time = SimulatedTime()
    took_ms = 64.0

    def engine() -> None:
        nonlocal took_ms
        time.now_ns += int(took_ms * NS_PER_MS)
        took_ms = max(took_ms * share, least_ms)

    run_ns = warmed(engine, time)
    if least_ms:
        assert run_ns == 2.0 * NS_PER_MS
    else:
        assert 0.9e9 < time.now_ns < 2e9


@pytest.mark.parametrize("seed", range(20))
def test_an_engine_whose_times_scatter_is_warm_soon(seed: int) -> None:
    """Beside neighbours that take a share of the memory, blocks differ by a tenth for as long as one looks."""
    time = SimulatedTime(seed, noise=0.1, drift=0.1)
    warmed(time.engine(5.0), time)
    assert time.now_ns < 0.5e9


def test_a_run_longer_than_the_time_allowed_is_made_once() -> None:
    """Warming up a run of 5 s takes 5 s, not five runs; of a run of 0.4 s it takes two and a half in the second."""
    time = SimulatedTime()
    assert warmed(time.engine(5000.0), time) == 5000 * NS_PER_MS
    assert time.now_ns == 5000 * NS_PER_MS
    time = SimulatedTime()
    warmed(time.engine(400.0), time)
    assert time.now_ns <= 1e9


@given(run_ms=st.floats(0.001, 5000))
def test_a_block_is_long_enough_and_fits(run_ms: float) -> None:
    """It has 4 runs and lasts 5 ms at least, unless twice 8 rounds of 3 engines would not fit into 10 s."""
    runs = runs_of_block(run_ms * NS_PER_MS, PLAN, PLAN.max_s)
    share_ms = 1000 * PLAN.max_s / (2 * 3 * PLAN.min_rounds)
    if (PLAN.min_runs + 1) * run_ms <= share_ms:
        assert runs >= PLAN.min_runs
        assert runs * run_ms >= 5.0 or runs == 1000
    elif runs > 1:
        assert (runs + 1) * run_ms <= share_ms * (1 + 1e-9)


@pytest.mark.parametrize(
    ("run_ms", "without", "rounds", "runs"),
    [(0.05, 1000, 299, 221), (5.0, 20, 59, 10), (5.0, 20, 299, 1), (5.0, 20, 999, 1)],
)
def test_rounds_that_bound_a_tail_fit_where_they_can(run_ms: float, without: int, rounds: int, runs: int) -> None:
    """Shorter blocks make room for them, of one run at least."""
    plan = replace(PLAN, min_block_s=0.1)
    assert runs_of_block(run_ms * NS_PER_MS, plan, PLAN.max_s) == without
    assert runs_of_block(run_ms * NS_PER_MS, plan, PLAN.max_s, rounds) == runs
