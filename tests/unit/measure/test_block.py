"""One block runs with the interpreter kept quiet."""

from __future__ import annotations

import gc
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.measure.block import Block, ByDevice, time_block
from tests.unit.measure.simulated import SimulatedTime


def test_a_clock_that_stands_still_still_gives_a_time() -> None:
    """A nanosecond, so that ratios exist."""
    assert time_block(lambda: None, 2, lambda: 5).runs_ns == (1, 1)


def test_the_cold_run_is_apart_from_the_others() -> None:
    """Three runs are timed and one more before them."""
    time = SimulatedTime()
    block = time_block(time.engine(1.0, cold_ms=2.0), 3, time.clock)
    assert (block.cold_ns, block.runs_ns) == (3_000_000, (1_000_000,) * 3)


def test_a_call_that_tells_its_own_time_is_timed_by_both_clocks() -> None:
    """Each run by the device's, the cold one too; no time at all is a nanosecond."""
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


@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)), min_size=1))
def test_the_run_that_the_device_times_is_not_in_the_hosts(runs: list[tuple[int, int]]) -> None:
    """Each call holds one run for either clock: what is left of it is the host's, whatever the device says."""
    host, device = zip(*runs, strict=True)
    calls = tuple(ours + theirs for ours, theirs in runs)
    assert Block(1, calls, (1, *device)).host_ns == host


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_a_profiler_is_off_inside_and_on_again_outside(error: type[BaseException] | None) -> None:
    """And collection, that was off before, stays off; an interrupted block puts everything back too."""
    seen = []

    def engine() -> None:
        seen.append(sys.getprofile())
        if error is not None:
            raise error

    def profiler(*_: object) -> None:
        """See everything, keep nothing."""

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(profiler)
    try:
        if error is None:
            time_block(engine, 1, SimulatedTime().clock)
        else:
            with pytest.raises(error):
                time_block(engine, 1, SimulatedTime().clock)
        found = sys.getprofile(), gc.isenabled()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    assert set(seen) == {None}
    assert found == (profiler, False)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
def test_monitors_are_off_inside_and_on_again_outside() -> None:
    """A debugger or a profiler of Python 3.12 and later sees nothing of a block."""
    monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    tool, wanted = monitoring.OPTIMIZER_ID, monitoring.events.PY_START
    seen = []
    monitoring.use_tool_id(tool, "test")
    monitoring.set_events(tool, wanted)
    try:
        time_block(lambda: seen.append(monitoring.get_events(tool)), 1, SimulatedTime().clock)
        after = monitoring.get_events(tool)
    finally:
        monitoring.set_events(tool, monitoring.events.NO_EVENTS)
        monitoring.free_tool_id(tool)
    assert seen == [monitoring.events.NO_EVENTS] * 2
    assert after == wanted
