"""A way around pytest's capture: lines for the user while a test runs."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TextIO

import pytest

WIDTH = "quant_width"
"""Under this key a worker of xdist is told how wide the terminal is."""


def width_of(config: pytest.Config) -> int:
    """Return the width of the terminal that the user looks at, in characters."""
    told = getattr(config, "workerinput", {}).get(WIDTH)
    return told if isinstance(told, int) else config.get_terminal_writer().fullwidth


def open_console(config: pytest.Config) -> Callable[[str], None]:
    """Return what writes one line to where the user looks: the terminal, or standard error in xdist's workers.

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
        # The reporter may be in the middle of a line; told that it is not, it names the file again. A worker
        # knows nothing of the controller's line.
        lead = "\n" if in_worker or (reporter is not None and reporter.currentfspath is not None) else ""
        if reporter is not None:
            reporter.currentfspath = None
        stream.write(f"{lead}{line}\n")
        stream.flush()

    return write


def _duplicate(stream: TextIO, config: pytest.Config) -> TextIO:
    """Open the stream's file once more until pytest ends; a stream that is no file is used as it is."""
    try:
        number = stream.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return stream
    own = os.fdopen(os.dup(number), "w", encoding=stream.encoding or "utf-8", errors="backslashreplace")
    config.add_cleanup(own.close)
    return own
