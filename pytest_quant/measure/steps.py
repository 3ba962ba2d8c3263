"""The steps under way: shown to the user when they last, and ended when they take too long.

Runs and builds are native calls that nothing in Python can interrupt. A runtime that can be asked to stop is asked, and
the check is an error. Otherwise the process is ended with a message: there is no other way out of such a call. The
checks that it had finished are kept, and the next run adds them.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass

from pytest_quant.backends.child_process import end_children
from pytest_quant.clocks import REAL
from pytest_quant.errors import BuildError
from pytest_quant.printable import clean

SHOW_EVERY_S = 2.0
LINES_AT_S = (10.0, 30.0, 60.0, 120.0)

STEP_TIMEOUT_S = 3600.0
"""Longest run or build, unless an option says otherwise."""

Stop = Callable[[], bool]
"""Asks a runtime from another thread to end the call under way, and returns whether it can."""

_STOPS_WITHIN_S = 30.0

_KEPT = (
    "  the call cannot be interrupted, so this process is ended; finished checks are kept, "
    "and the next run adds them to the history"
)


def _start_thread(target: Callable[[], None]) -> None:
    threading.Thread(target=target, name="quant-steps", daemon=True).start()


@dataclass(eq=False, slots=True)
class _Step:
    """A step under way; `due_s` is when it is shown next, `ends_s` when it has taken too long."""

    text: str
    began_s: float
    due_s: float
    ends_s: float
    stop: Stop | None
    is_shown: bool = False
    is_stopped: bool = False


@dataclass(eq=False)
class Steps:
    """Shows messages and long steps to the user, and bounds the time of those that may never end.

    One thread looks at the steps of a run as long as there are any. Steps are many and short: a thread for each took
    longer than most of them.

    Parameters
    ----------
    write : shows one line, given without its end; called from another thread during a step.
    limit_s : longest time of a bounded step in seconds; 0 for no bound.
    passing : shows a line in place of the one that it showed before, and removes that for an empty one; ``None`` where
        lines stay.
    clock : seconds, monotonic; replaced in tests.
    start : starts the thread, which calls what it is given; replaced in tests.
    end : ends the process with an exit code; replaced in tests.

    Attributes
    ----------
    limit_s : as given.
    """

    write: Callable[[str], object]
    limit_s: float = 0.0
    _: KW_ONLY
    passing: Callable[[str], object] | None = None
    clock: Callable[[], float] = REAL.perf_counter
    start: Callable[[Callable[[], None]], None] = _start_thread
    end: Callable[[int], object] = os._exit

    def __post_init__(self) -> None:
        self._tell = self.passing or self.write
        self._steps: list[_Step] = []
        self._is_watched = False
        self._lock = threading.Lock()

    def notify(self, text: str) -> None:
        """Show one line now."""
        with self._lock:
            self.write(clean(text))

    def show(self, text: str) -> AbstractContextManager[None]:
        """Show `text` with the elapsed time while the block lasts.

        Where the line can be replaced that is every 2 s, and nothing is left of it. In a log it is after 10, 30, 60 and
        120 s, then every two minutes, and at the end.
        """
        return self._show_step(text, shown=True)

    def bounded(self, text: str) -> AbstractContextManager[None]:
        """Show a step as `show` does, and bound its time.

        What runs apart is ended with a `BuildError`; nothing can end the rest but the end of this process.
        """
        return self._show_step(text, shown=True, stop=end_children if self.limit_s else None)

    def watch(self, text: str, stop: Stop) -> AbstractContextManager[None]:
        """Bound the time of the block, which `stop` may end; raises `BuildError` if it did."""
        return self._show_step(text, shown=False, stop=stop) if self.limit_s else nullcontext()

    def describe(self, text: str) -> None:
        """Show another text for the innermost step under way."""
        self._steps[-1].text = text

    @contextmanager
    def _show_step(self, text: str, *, shown: bool, stop: Stop | None = None) -> Iterator[None]:
        now_s = self.clock()
        due_s = self._due_s(now_s, now_s) if shown else math.inf
        step = _Step(text, now_s, due_s, math.inf if stop is None else now_s + self.limit_s, stop)
        with self._lock:
            self._steps.append(step)
            unwatched, self._is_watched = not self._is_watched, True
        if unwatched:
            self.start(self._keep_looking)
        try:
            yield
        except Exception as error:
            if step.is_stopped:
                raise self._timeout_error(step) from error
            raise
        finally:
            took_s = self.clock() - now_s
            with self._lock:
                self._steps.remove(step)
                if stop is not None and (around := self._innermost()):
                    around.ends_s += took_s  # the time of a step within another one counts for it alone
                if step.is_shown:
                    self._tell(clean(f"{text}: took {took_s:.0f} s") if self.passing is None else "")

    def _due_s(self, began_s: float, now_s: float) -> float:
        """Return when a step is shown next."""
        if self.passing is not None:
            return now_s + SHOW_EVERY_S
        return next(began_s + at_s for at_s in (*LINES_AT_S, now_s - began_s + 120.0) if began_s + at_s > now_s)

    def _innermost(self) -> _Step | None:
        """Return the step that is bounded now."""
        return next((step for step in reversed(self._steps) if step.stop is not None), None)

    def _keep_looking(self) -> None:
        while (wait_s := self.look()) is not None:
            time.sleep(wait_s)

    def look(self) -> float | None:
        """Show what is due, end what takes too long, and return the seconds until the next look.

        ``None`` when no step is under way.
        """
        with self._lock:
            if not self._steps:
                self._is_watched = False
                return None
            now_s = self.clock()
            due = [step for step in self._steps if step.due_s <= now_s]
            for step in due:
                step.is_shown, step.due_s = True, self._due_s(step.began_s, now_s)
            # Of steps within one another the innermost that lasts is shown.
            if due and due[-1] is [step for step in self._steps if step.is_shown][-1]:
                self._tell(clean(f"{now_s - due[-1].began_s:.0f} s: {due[-1].text}"))
            innermost = self._innermost()
            # A step that begins meanwhile is due no sooner than that.
            wait_s = min(SHOW_EVERY_S, *(step.due_s - now_s for step in self._steps))
        if innermost is not None and innermost.ends_s <= now_s:
            self._stop_or_end(innermost)
        return min(wait_s, self.limit_s / 4) if self.limit_s else wait_s

    def _stop_or_end(self, step: _Step) -> None:
        # Known before it is stopped: what the step then raises may be looked at before `stop` returns.
        is_first, step.is_stopped = not step.is_stopped, True
        if is_first and step.stop is not None and step.stop():
            step.ends_s = self.clock() + _STOPS_WITHIN_S
        elif step in self._steps:
            step.ends_s = math.inf
            self.notify(f"{self._timeout_error(step)}\n{_KEPT}")
            # Exit code of pytest for a run that was interrupted.
            self.end(2)

    def _timeout_error(self, step: _Step) -> BuildError:
        return BuildError(
            f"{step.text} did not end within {self.limit_s:g} s",
            fix="a loop in the model may never end; if it only takes long: --quant-step-timeout SECONDS",
        )
