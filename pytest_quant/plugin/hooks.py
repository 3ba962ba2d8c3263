"""Hooks of ours that a conftest.py or another plugin implements, and how they are called."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy
import pytest

if TYPE_CHECKING:
    from pytest_quant.record import Record, Run


@pytest.hookspec()
def pytest_quant_record(record: Record, run: Run, config: pytest.Config) -> None:
    """Take the record of one check, to send it elsewhere.

    It is called at the end of the run in the controlling process, once for each check in the order of the tests, also
    under pytest-xdist, when the history and the file of ``--quant-json`` are written and before anything is printed.
    Checks that are skipped or in error have a record too; one whose test ran several times is the last one. It is not
    called with ``--collect-only``, nor in the processes that ``--quant-against`` and ``pytest-quant bisect`` start for
    other commits.

    An exception is a warning in red at the end of the run, and changes neither outcomes nor what is recorded.

    Parameters
    ----------
    record : everything that is kept of the check; its sections are ``None`` where it could not be measured.
    run : commit, branch and machine of this run.
    config : of pytest.
    """


_RAISED = (Exception, SystemExit, pytest.exit.Exception, pytest.fail.Exception, pytest.skip.Exception)
"""What other people's code may end with, that of its libraries included; only Ctrl-C ends the run."""


def send_records(config: pytest.Config, run: Run, records: Sequence[Record]) -> list[str]:
    """Call `pytest_quant_record` for each record, and return a warning for each way in which it failed.

    Parameters
    ----------
    config : of the controlling process.
    run : that the records are of.
    records : in the order of the tests.
    """
    called = config.hook.pytest_quant_record
    if not called.get_hookimpls() or config.getoption("quant_leave"):
        return []
    failed: dict[str, list[str]] = {}
    for record in records:
        try:
            called(record=record, run=run, config=config)
        except _RAISED as error:
            failed.setdefault(_described(error, config.rootpath), []).append(record.nodeid)
    return [
        f"pytest_quant_record failed for {tests[0]}{f' and {len(tests) - 1} more' if tests[1:] else ''}: {why}; the "
        "records are kept"
        for why, tests in failed.items()
    ]


def _described(error: BaseException, root: Path) -> str:
    """Return what was raised, and where in the code that implements the hook."""
    callers = (Path(__file__).parent, Path(pluggy.__file__).parent)
    for frame in traceback.extract_tb(error.__traceback__):
        if not any(map(Path(frame.filename).is_relative_to, callers)):
            return f"{type(error).__name__}: {error} ({os.path.relpath(frame.filename, root)}:{frame.lineno})"
    return f"{type(error).__name__}: {error}"
