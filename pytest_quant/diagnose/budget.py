"""The time that looking for advice may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Budget:
    """Seconds to spend on trials; one is begun only when it is likely to end in time.

    Parameters
    ----------
    seconds : in all, from now on.
    expected_s : what the first trial of a kind is likely to take; later ones are expected to take as long as the
        longest of their kind so far.
    clock : seconds from any start.
    """

    def __init__(self, seconds: float, expected_s: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._expected_s = expected_s
        self._longest_s: dict[str, float] = {}
        self._clock = clock
        self._started = clock()

    def allows(self, kind: str, *, share: float = 1.0, more_s: float = 0.0) -> bool:
        """Whether a trial is likely to end in `share` of the time; it takes `more_s` longer than others of its kind."""
        spent_s = self._clock() - self._started
        return spent_s + self._longest_s.get(kind, self._expected_s) + more_s <= share * self.seconds

    @contextmanager
    def trial(self, kind: str, *, more_s: float = 0.0) -> Iterator[None]:
        """Time one trial; `more_s` of it were expected and tell nothing about the next."""
        began = self._clock()
        try:
            yield
        finally:
            took_s = self._clock() - began - more_s
            self._longest_s[kind] = max(self._longest_s.get(kind, 0.0), took_s)
