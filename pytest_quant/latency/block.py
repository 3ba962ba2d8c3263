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
            times.append(clock() - started)
    return Block(times[0], tuple(times[1:]))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep garbage collection, tracers and profilers out of a block; they are back when it ends."""
    collecting, trace, profile = gc.isenabled(), sys.gettrace(), sys.getprofile()
    gc.disable()
    sys.settrace(None)
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(profile)
        sys.settrace(trace)
        if collecting:
            gc.enable()
