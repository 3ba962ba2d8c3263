"""Messages to the user while a test runs: past pytest's capture, in terminals, CI logs and xdist's workers.

On a terminal the step under way has a line below pytest's own, and leaves the cursor where pytest left it. Elsewhere,
and where tests or workers may write between, each message is a line that stays. Under ``-q`` no step is shown.
"""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import nullcontext
from functools import partial
from typing import Any, TextIO

import pytest

from pytest_quant.host import moves_cursor
from pytest_quant.measure.steps import Steps

_LABEL = re.compile(r"^  (limit|cause:|try) ", re.MULTILINE)

WIDTH = "quant_width"
"""Key under which a worker of xdist receives the width of the terminal."""


def width_of(config: pytest.Config) -> int:
    """Return the width of the user's terminal in characters, also in a worker of xdist."""
    received = getattr(config, "workerinput", {}).get(WIDTH)
    return received if isinstance(received, int) else config.get_terminal_writer().fullwidth


def color_labels(config: pytest.Config, report: pytest.TestReport) -> None:
    """Show which limit is broken, why, and what to try in colour, on the terminal alone: a file gets the plain text."""
    plain: Any = report.longrepr
    text = str(plain)

    def toterminal(writer: Any) -> None:
        if not writer.hasmarkup or writer is not config.get_terminal_writer():
            type(plain).toterminal(plain, writer)
            return
        for line in text.splitlines():
            label = _LABEL.match(line)
            if label:
                writer.write(label[0], bold=True, yellow=True)
            writer.line(line[label.end() :] if label else line)

    # A traceback of the test's body has colours of its own.
    if hasattr(plain, "toterminal") and _LABEL.search(text):
        plain.toterminal = toterminal


def open_steps(config: pytest.Config, limit_s: float = 0.0) -> Steps:
    """Return steps that are shown on the terminal, or on standard error in xdist's workers.

    The stream is duplicated while capture is off, so that a line may come at any time and from any thread.
    Without pytest's terminal reporter nothing is shown.

    Parameters
    ----------
    config : pytest's.
    limit_s : longest time of a bounded step in seconds; 0 for no bound.
    """
    in_worker = hasattr(config, "workerinput")
    reporter = None if in_worker else config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None and not in_worker:
        return Steps(lambda _: None, limit_s)
    capture = config.pluginmanager.get_plugin("capturemanager")
    with nullcontext() if capture is None else capture.global_and_fixture_disabled():
        stream = _duplicate(sys.stderr if in_worker else sys.stdout, config)
    writer = None if in_worker else config.get_terminal_writer()
    is_shown = False

    def show(line: str, end: str = "") -> None:
        nonlocal is_shown
        # pytest may be in the middle of a line. A worker does not know the controller's.
        column = 1 if writer is None else writer.width_of_current_line % writer.fullwidth
        to_pytest, to_own = (f"\x1b[A\x1b[{column}C", "\n") if column else ("", "")
        stream.write((f"\r\x1b[K{to_pytest}" if is_shown else "") + (f"{to_own}quant: {line}{end}" if line else ""))
        stream.flush()
        is_shown = bool(line) and not end
        if end and reporter is not None:
            # What pytest writes next begins a line, and with the name of the file.
            reporter.currentfspath, vars(writer)["_current_line"] = None, ""

    # The pytest of `pytest-quant profile` or `pytest-quant diagnose` is quiet, and that command shows the steps.
    is_asked = config.getoption("quant_profile", None) or config.getoption("quant_diagnose", None)
    quiet = config.get_verbosity() < 0 and not is_asked
    in_place = writer is not None and writer.hasmarkup and stream.isatty() and config.getoption("capture", "") == "fd"
    in_place = in_place and moves_cursor()
    passing = (lambda _: None) if quiet else (lambda line: show(line[: width_of(config) - 8])) if in_place else None
    return Steps(partial(show, end="\n"), limit_s, passing=passing)


def _duplicate(stream: TextIO, config: pytest.Config) -> TextIO:
    """Return a duplicate of the stream's file, open until pytest ends; a stream without a file is returned itself."""
    try:
        number = stream.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return stream
    own = os.fdopen(os.dup(number), "w", encoding=stream.encoding or "utf-8", errors="backslashreplace")
    config.add_cleanup(own.close)
    return own
