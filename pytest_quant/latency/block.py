"""One block: several runs of one engine in a row, timed one by one, with the interpreter kept quiet."""

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


_MONITORS = range(6)
"""The numbers that `sys.monitoring` gives to debuggers, coverage tools and profilers."""


@dataclass(frozen=True, slots=True)
class Block:
    """`cold_ns` is the first run after a switch, which is slower for INT8 than for FP32 and kept apart."""

    cold_ns: int
    runs_ns: tuple[int, ...]


def time_block(call: Call, runs: int, clock: Clock) -> Block:
    """Time one cold run and `runs` more."""
    with _quiet():
        times = []
        for _ in range(runs + 1):
            started = clock()
            call()
            times.append(max(clock() - started, 1))  # a coarse clock may stand still, and a ratio needs a time
    return Block(times[0], tuple(times[1:]))


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
    """Stop the events of every monitor, and return what each had asked for; before Python 3.12 there are none."""
    if sys.version_info < (3, 12):
        return []
    active = [tool for tool in _MONITORS if sys.monitoring.get_tool(tool) is not None]
    asked = [(tool, events) for tool in active if (events := sys.monitoring.get_events(tool))]
    for tool, _ in asked:
        sys.monitoring.set_events(tool, sys.monitoring.events.NO_EVENTS)
    return asked


def _resume_monitors(asked: list[tuple[int, int]]) -> None:
    if sys.version_info >= (3, 12):
        for tool, events in asked:
            sys.monitoring.set_events(tool, events)
