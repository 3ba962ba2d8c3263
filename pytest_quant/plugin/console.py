"""Messages to the user while a test runs: past pytest's capture, in terminals, CI logs and xdist's workers."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TextIO

import pytest

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
        stream.write(f"{lead}quant: {line}\n")
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
