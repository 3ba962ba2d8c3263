"""What is known of a machine as a runner of timed checks."""

from __future__ import annotations

from pytest_quant.environment import fingerprint
from pytest_quant.errors import HistoryError
from pytest_quant.history import INSTALL, missing_libraries
from pytest_quant.history.selftests import newest_selftest
from pytest_quant.report.selftest import held_line

_NOT_KNOWN = "which limits on speed it holds is not known"


def runner_line(history: str) -> str:
    """Return when this machine last tested itself and what it holds, or how to find out; `history` is its place."""
    if missing_libraries():
        return f"{_NOT_KNOWN}, and cannot be kept; first: {INSTALL}"
    try:
        found = newest_selftest(history, fingerprint().identity, "cpu")
    except HistoryError as error:
        return f"{_NOT_KNOWN}: {error.what}"
    return held_line(found) if found else f"{_NOT_KNOWN}; to find out: pytest-quant selftest --quick"
