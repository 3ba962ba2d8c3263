"""A limit on single runs and builds, which are native calls that nothing in Python can interrupt.

A runtime that can be asked to stop is asked, and the check is an error. Otherwise the process is ended with a message:
there is no other way out of such a call. The checks that it had finished are kept, and the next run adds them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from pytest_quant.errors import BuildError

STEP_TIMEOUT_S = 3600.0
"""Longest run or build, unless an option says otherwise."""

Stop = Callable[[], bool]
"""Asks a runtime from another thread to end the call under way, and tells whether it can."""

Watch = Callable[[str, Stop], AbstractContextManager[None]]
"""Bounds the time of a block, which the text names."""

_POLL_S = 1.0
_STOPS_WITHIN_S = 30.0
_INTERRUPTED = 2
"""Exit code of pytest for a run that was interrupted."""


def unwatched(_what: str, _stop: Stop) -> AbstractContextManager[None]:
    """Bound nothing."""
    return nullcontext()


@dataclass(slots=True)
class _Call:
    what: str
    stop: Stop
    until: float
    asked: bool = False


class Watchdog:
    """Looks every second whether the call under way takes too long.

    Parameters
    ----------
    limit_s : longest time of one call in seconds.
    notify : shows the last message to the user.
    end : ends the process with an exit code; replaced in tests.
    """

    def __init__(self, limit_s: float, notify: Callable[[str], None], end: Callable[[int], object] = os._exit) -> None:
        self._limit_s = limit_s
        self._notify = notify
        self._end = end
        self._call: _Call | None = None
        self._lock = threading.Lock()
        self._looks = False

    @contextmanager
    def __call__(self, what: str, stop: Stop) -> Iterator[None]:
        """Bound the time of the block; the time of blocks within it counts for them alone.

        Raises
        ------
        BuildError : the runtime ended the call when it was asked to.
        """
        before, began = self._call, time.monotonic()
        call = _Call(what, stop, began + self._limit_s)
        with self._lock:
            self._call = call
            if not self._looks:
                self._looks = True
                threading.Thread(target=self._look, name="quant-watchdog", daemon=True).start()
        try:
            yield
        except Exception as error:
            if call.asked:
                raise self._too_long(call) from error
            raise
        finally:
            if before is not None:
                before.until += time.monotonic() - began
            self._call = before

    def _look(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(min(_POLL_S, self._limit_s / 4))
            with self._lock:
                call = self._call
                if call is None:
                    self._looks = False
                    return
            if time.monotonic() < call.until:
                continue
            if not call.asked and call.stop():
                call.asked, call.until = True, time.monotonic() + _STOPS_WITHIN_S
            elif self._call is call:
                self._notify(f"{self._too_long(call)}\n{_KEPT}")
                self._end(_INTERRUPTED)
                return

    def _too_long(self, call: _Call) -> BuildError:
        return BuildError(
            f"{call.what} did not end within {self._limit_s:g} s",
            fix="a loop in the model may never end; for one that only takes long: --quant-step-timeout SECONDS",
        )


_KEPT = (
    "  the call cannot be interrupted, so this process is ended; finished checks are kept, "
    "and the next run adds them to the history"
)
