"""Messages to the user while a test runs: past pytest's capture, in terminals, CI logs and xdist's workers."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TextIO

import pytest

from pytest_quant.printable import clean

SHOW_AFTER_S = 2.0
REPEAT_EVERY_S = 10.0


def _in_thread(target: Callable[[], None]) -> None:
    threading.Thread(target=target, name="quant-progress", daemon=True).start()


@dataclass(eq=False, slots=True)
class _Step:
    """A step under way: its text, when it began, and when its next line is due, in seconds of the clock."""

    text: str
    began_s: float
    due_s: float
    is_shown: bool = False


class Progress:
    """Shows messages and long steps to the user.

    One thread watches the steps of a run as long as there are any. Steps are many and short: a thread for each took
    longer than most of them.

    Parameters
    ----------
    write : shows one line, given without its end; called from another thread during a step.
    clock : seconds, monotonic; replaced in tests.
    watch : starts the thread, which calls what it is given; replaced in tests.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        watch: Callable[[Callable[[], None]], None] = _in_thread,
    ) -> None:
        self._write = write
        self._clock = clock
        self._watch = watch
        self._steps: list[_Step] = []
        self._is_watched = False
        self._lock = threading.Lock()

    def notify(self, text: str) -> None:
        """Show one line now."""
        self._write(clean(f"quant: {text}"))

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show `text` when the block takes longer than 2 s, then the elapsed time every 10 s and at its end."""
        now_s = self._clock()
        step = _Step(text, now_s, now_s + SHOW_AFTER_S)
        with self._lock:
            self._steps.append(step)
            unwatched, self._is_watched = not self._is_watched, True
        if unwatched:
            self._watch(self._keep_looking)
        try:
            yield
        finally:
            with self._lock:
                self._steps.remove(step)
        if step.is_shown:
            self.notify(f"{text}: done after {self._clock() - step.began_s:.0f} s")

    def _keep_looking(self) -> None:
        while (wait_s := self.look()) is not None:
            time.sleep(wait_s)

    def look(self) -> float | None:
        """Show what is due, and return the seconds until something may be again; ``None`` when no step is under way."""
        with self._lock:
            if not self._steps:
                self._is_watched = False
                return None
            now_s = self._clock()
            for step in self._steps:
                if step.due_s <= now_s:
                    elapsed = f" {step.due_s - step.began_s:.0f} s" if step.is_shown else ""
                    self.notify(f"{step.text} ...{elapsed}")
                    step.is_shown = True
                    step.due_s += REPEAT_EVERY_S
            # A step that begins meanwhile is due no sooner than that.
            return min(SHOW_AFTER_S, *(step.due_s - now_s for step in self._steps))


WIDTH = "quant_width"
"""Key under which a worker of xdist receives the width of the terminal."""


def width_of(config: pytest.Config) -> int:
    """Return the width of the user's terminal in characters, also in a worker of xdist."""
    received = getattr(config, "workerinput", {}).get(WIDTH)
    return received if isinstance(received, int) else config.get_terminal_writer().fullwidth


def open_console(config: pytest.Config) -> Callable[[str], None]:
    """Return a function that writes one line to the terminal, or to standard error in xdist's workers.

    The stream is duplicated while capture is off, so that a line may come at any time and from any thread.
    Without pytest's terminal reporter nothing is shown.
    """
    in_worker = hasattr(config, "workerinput")
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None and not in_worker:
        return lambda _: None
    capture = config.pluginmanager.get_plugin("capturemanager")
    with nullcontext() if capture is None else capture.global_and_fixture_disabled():
        stream = _duplicate(sys.stderr if in_worker else sys.stdout, config)

    def write(line: str) -> None:
        # The reporter may be in the middle of a line, and names the file again when its state is reset. A worker does
        # not know the state of the controller's line.
        lead = "\n" if in_worker or (reporter is not None and reporter.currentfspath is not None) else ""
        if reporter is not None:
            reporter.currentfspath = None
        stream.write(f"{lead}{line}\n")
        stream.flush()

    return write


def _duplicate(stream: TextIO, config: pytest.Config) -> TextIO:
    """Return a duplicate of the stream's file, open until pytest ends; a stream without a file is returned itself."""
    try:
        number = stream.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return stream
    own = os.fdopen(os.dup(number), "w", encoding=stream.encoding or "utf-8", errors="backslashreplace")
    config.add_cleanup(own.close)
    return own
