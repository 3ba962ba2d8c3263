"""A clock that only moves when an engine runs, and engines of known speed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pytest_quant.measure.interleave import Call
from pytest_quant.measure.latency_figures import MachineState
from pytest_quant.measure.timed_rounds import Calls, measure
from pytest_quant.result import LatencyResult
from pytest_quant.spec import LatencyPlan

BURST_NS = 50_000_000
BURST_SLOWDOWN = 1.5


class SimulatedTime:
    """Time that passes by the engines' own runs, with the noise of a shared machine where asked for.

    Parameters
    ----------
    noise : mean of what is added to each run, as a share of it.
    drift : standard deviation of the change of the machine's speed from one run to the next, as a share of it.
    bursts : chance of a run to start 50 ms in which everything takes half as long again.

    """

    def __init__(self, seed: int = 0, *, noise: float = 0.0, drift: float = 0.0, bursts: float = 0.0) -> None:
        self.now_ns = 0
        self._random = random.Random(seed)  # noqa: S311 - noise, not a secret
        self._noise = noise
        self._drift = drift
        self._bursts = bursts
        self._slow_until_ns = 0
        self._speed = 1.0

    def measure(self, reference: Call, null: Call, candidate: Call, plan: LatencyPlan, **more: Any) -> LatencyResult:
        """Measure three engines by this clock, on a machine on which nothing else happens."""
        return self.measure_calls((reference, null, candidate), plan, **more)

    def measure_calls(self, calls: Calls, plan: LatencyPlan, **more: Any) -> LatencyResult:
        """Measure as `measure` does, in its place."""
        return measure(calls, plan, **{"clock": self.clock, "machine": self.quiet, **more})

    def clock(self) -> int:
        """Nanoseconds since the start; reading takes no time."""
        return self.now_ns

    def engine(self, run_ms: float, *, cold_ms: float = 0.0) -> Callable[[], None]:
        """An engine whose runs take `run_ms`; the first after another engine ran takes `cold_ms` more."""

        def run() -> None:
            took_ms = run_ms * self._speed * (1.0 + self._random.expovariate(1.0) * self._noise)
            self._speed *= 1.0 + self._random.gauss(0.0, self._drift)
            if self._random.random() < self._bursts:
                self._slow_until_ns = self.now_ns + BURST_NS
            if self.now_ns < self._slow_until_ns:
                took_ms *= BURST_SLOWDOWN
            self.now_ns += int(1e6 * (took_ms + (cold_ms if self._last is not run else 0.0)))
            self._last = run

        return run

    def quiet(self) -> MachineState:
        """A machine on which nothing else happens."""
        return MachineState(self.now_ns / 1e9, 0.0, 0.0, 0.0, 0, 2)

    _last: object = None
