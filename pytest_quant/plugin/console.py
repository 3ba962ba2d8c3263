"""Messages to the user while a test runs: past pytest's capture, in terminals, CI logs and xdist's workers."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TextIO

import pytest

SHOW_AFTER_S = 2.0
REPEAT_EVERY_S = 10.0

Wait = Callable[[threading.Event, float], bool]
"""Waits for an event for at most some seconds, and returns whether it was set."""


class Progress:
    """Shows messages and long steps to the user.

    Parameters
    ----------
    write : shows one line, given without its end; called from another thread during a step.
    wait : waits for an event; replaced in tests.
    """

    def __init__(self, write: Callable[[str], None], *, wait: Wait = threading.Event.wait) -> None:
        self._write = write
        self._wait = wait

    def notify(self, text: str) -> None:
        """Show one line now."""
        self._write(f"quant: {text}")

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show `text` when the block takes longer than 2 s, then the elapsed time every 10 s and at its end."""
        done, shown = threading.Event(), threading.Event()
        watcher = threading.Thread(target=self._watch, args=(text, done, shown), name="quant-progress", daemon=True)
        started = time.monotonic()
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
        if shown.is_set():
            self.notify(f"{text}: done after {time.monotonic() - started:.0f} s")

    def _watch(self, text: str, done: threading.Event, shown: threading.Event) -> None:
        if self._wait(done, SHOW_AFTER_S):
            return
        shown.set()
        self.notify(f"{text} ...")
        elapsed_s = SHOW_AFTER_S
        while not self._wait(done, REPEAT_EVERY_S):
            elapsed_s += REPEAT_EVERY_S
            self.notify(f"{text} ... {elapsed_s:.0f} s")


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
