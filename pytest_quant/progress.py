"""How progress is shown: plain lines, in a terminal, in a CI log and from xdist's workers alike."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHOW_AFTER_S = 2.0
REPEAT_EVERY_S = 10.0

Wait = Callable[[threading.Event, float], bool]
"""Wait for an event for at most so many seconds; tell whether it came."""


class Progress:
    """Tells the user what goes on.

    Parameters
    ----------
    write : takes one line without its end. It is called from a thread of its own while a step lasts.
    wait : replaces the wait in tests.
    """

    def __init__(self, write: Callable[[str], None], *, wait: Wait = threading.Event.wait) -> None:
        self._write = write
        self._wait = wait

    def notify(self, text: str) -> None:
        """Show one line now."""
        self._write(f"quant: {text}")

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show `text` when the block lasts longer than 2 s, then the time spent every 10 s, and at its end."""
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
