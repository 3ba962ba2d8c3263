"""What rides on pytest's reports: the record of a check, and errors as plain text."""

from __future__ import annotations

import os

import pytest

from pytest_quant.benchmark_bridge import SAMPLES_ATTRIBUTE
from pytest_quant.checking import SAMPLES, keep_error, record_json, short_message
from pytest_quant.errors import QuantError
from pytest_quant.marked import RECORD_ATTRIBUTE


def attach(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Put the record of a marked item on its report; xdist carries it to the controller.

    A check that was skipped or could not be rides on the report of the set-up, any other on that of the call.
    """
    error = None if call.excinfo is None else call.excinfo.value
    skipped = isinstance(error, pytest.skip.Exception)
    if report.when == "setup" and error is not None and not skipped:
        keep_error(item, error)
    if isinstance(error, QuantError) and report.failed:
        _show_text_only(item, call, report, error)
    told = short_message(item, error)
    if told:
        _name_the_limit(report, told)
    if report.when == "call" or (report.when == "setup" and error is not None):
        record = record_json(item)
        if record is not None:
            vars(report)[RECORD_ATTRIBUTE] = record
            vars(report)[SAMPLES_ATTRIBUTE] = item.stash.get(SAMPLES, None)
            if skipped and report.when == "setup":
                _show_at_the_test(item, report)


def _show_text_only(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, error: QuantError
) -> None:
    """Replace the traceback of an error that says all by itself, unless it came out of the test's own body."""
    if call.excinfo is None or item.config.getoption("fulltrace", False):
        return
    if report.when == "call" and any(entry.path == item.path for entry in call.excinfo.traceback):
        return
    text = call.excinfo.getrepr(style="value", chain=False)
    if text.reprcrash is not None:
        text.reprcrash.message = str(error)
    report.longrepr = text


def _name_the_limit(report: pytest.TestReport, told: str) -> None:
    """Let the short summary, and JUnit's message, name the broken limit with both figures."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        crash.message = told


def _show_at_the_test(item: pytest.Item, report: pytest.TestReport) -> None:
    """Let the summary of skips name the line of the test in place of ours."""
    if isinstance(report.longrepr, tuple):
        path, line = item.reportinfo()[:2]
        report.longrepr = (os.fspath(path), (line or 0) + 1, report.longrepr[2])
