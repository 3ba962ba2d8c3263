"""Runs of one engine in a row, timed by the host's clock and by that of the device where the engine tells it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

Call = Callable[[], object]
"""One run of an engine, synchronized before it returns."""

Clock = Callable[[], int]
"""Nanoseconds from any start, never going back."""


NS_PER_MS = 1e6
_MONITORS = range(6)
"""The numbers that `sys.monitoring` gives to debuggers, coverage tools and profilers."""


class ByDevice:
    """A call that tells how long it took by the clock of its device, which is then the time that is judged.

    Parameters
    ----------
    call : two runs of an engine in a row, synchronized before it returns the milliseconds of the second.
    """

    def __init__(self, call: Callable[[], float]) -> None:
        self._call = call
        self.last_ns = 0

    def __call__(self) -> None:
        """Run twice; `last_ns` is what the second run took."""
        self.last_ns = max(round(self._call() * NS_PER_MS), 1)


@dataclass(frozen=True, slots=True)
class Block:
    """Runs of one engine in a row, in nanoseconds.

    Attributes
    ----------
    cold_ns : the first run after a switch, which is slower for INT8 than for FP32 and kept apart.
    runs_ns : the others, by the host's clock; where the device has one, with the run that it times behind each.
    device_ns : all of them, the cold one first, by the device's; empty where it has none.
    """

    cold_ns: int
    runs_ns: tuple[int, ...]
    device_ns: tuple[int, ...] = ()

    @property
    def host_ns(self) -> tuple[int, ...]:
        """The runs by the host's clock alone, without those that the device timed."""
        if not self.device_ns:
            return self.runs_ns
        return tuple(max(run - own, 1) for run, own in zip(self.runs_ns, self.device_ns[1:], strict=True))


def time_block(call: Call, runs: int, clock: Clock) -> Block:
    """Time one block: a cold run and `runs` more.

    Parameters
    ----------
    call : one run of an engine.
    runs : timed after the cold one, 0 or more.
    clock : nanoseconds.
    """
    with _quiet():
        times, by_device = [], []
        for _ in range(runs + 1):
            started = clock()
            call()
            times.append(max(clock() - started, 1))  # a coarse clock may stand still, and a ratio needs a time
            if isinstance(call, ByDevice):
                by_device.append(call.last_ns)
    return Block(times[0], tuple(times[1:]), tuple(by_device))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep garbage collection, tracers and profilers out of a block; they are back when it ends."""
    collecting, trace, profile = gc.isenabled(), sys.gettrace(), sys.getprofile()
    gc.disable()
    sys.settrace(None)
    sys.setprofile(None)
    monitors = _pause_monitors()
    try:
        yield
    finally:
        _resume_monitors(monitors)
        sys.setprofile(profile)
        sys.settrace(trace)
        if collecting:
            gc.enable()


def _pause_monitors() -> list[tuple[int, int]]:
    """Stop the events of every monitor, and return those that each had requested; before Python 3.12 there are none."""
    if sys.version_info < (3, 12):
        return []
    active = [tool for tool in _MONITORS if sys.monitoring.get_tool(tool) is not None]
    monitored = [(tool, events) for tool in active if (events := sys.monitoring.get_events(tool))]
    for tool, _ in monitored:
        sys.monitoring.set_events(tool, sys.monitoring.events.NO_EVENTS)
    return monitored


def _resume_monitors(monitored: list[tuple[int, int]]) -> None:
    if sys.version_info >= (3, 12):
        for tool, events in monitored:
            sys.monitoring.set_events(tool, events)
