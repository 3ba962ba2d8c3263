"""Why marked tests of a run have no record: they were skipped before their check, or their file was not collected.

Without it a comparison would take them for removed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.environment.revision import below_checkout
from pytest_quant.marks import SERIES_ATTRIBUTE

_MOST_LETTERS = 300


_FOUND = pytest.StashKey[Any]()


def without_record(config: pytest.Config) -> Any:
    """Return what this run has skipped, and could not collect so far: the fields of `Run` with the reasons."""
    return config.stash.setdefault(_FOUND, {"skipped": {}, "uncollected": {}})


def note_without_record(config: pytest.Config, report: pytest.CollectReport | pytest.TestReport) -> None:
    """Keep why there is no record of a test, or of the tests of a file, where a report says so."""
    if isinstance(report, pytest.CollectReport):
        file, gap, name = report.nodeid.partition("::")
        place = Path(os.path.normpath(config.rootpath / file))
        below = below_checkout(place, config.rootpath)
        where = (file if below is None else below.as_posix()) + gap + name
    else:
        where = vars(report).get(SERIES_ATTRIBUTE, "")
    if where or isinstance(report, pytest.CollectReport):
        without_record(config)["skipped" if report.skipped else "uncollected"][where or "."] = _why(report)


def _why(report: pytest.CollectReport | pytest.TestReport) -> str:
    """Return the reason of a skip, or the error that kept a file from being collected, in one line."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ").partition("\n")[0][:_MOST_LETTERS]
    lines = [line.strip() for line in str(report.longrepr).splitlines() if line.strip()]
    causes = [line.removeprefix("E").strip() for line in lines if line.startswith("E ")]
    return (causes or lines or ["it does not say why"])[-1][:_MOST_LETTERS]
