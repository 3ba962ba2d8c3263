"""A clock that only moves when an engine runs, and engines of known speed."""

from __future__ import annotations

import random
from collections.abc import Callable


class SimulatedTime:
    """Time that passes by the engines' own runs, with the noise of a shared machine where asked for."""

    def __init__(self, seed: int = 0, *, noise: float = 0.0, drift: float = 0.0) -> None:
        self.now_ns = 0
        self._random = random.Random(seed)  # noqa: S311 - noise, not a secret
        self._noise = noise
        self._drift = drift
        self._speed = 1.0

    def clock(self) -> int:
        """Nanoseconds since the start; reading takes no time."""
        return self.now_ns

    def engine(self, run_ms: float, *, cold_ms: float = 0.0) -> Callable[[], None]:
        """An engine whose runs take `run_ms`; the first after another engine ran takes `cold_ms` more."""

        def run() -> None:
            took_ms = run_ms * self._speed * (1.0 + self._random.expovariate(1.0) * self._noise)
            self._speed *= 1.0 + self._random.gauss(0.0, self._drift)
            self.now_ns += int(1e6 * (took_ms + (cold_ms if self._last is not run else 0.0)))
            self._last = run

        return run

    _last: object = None
