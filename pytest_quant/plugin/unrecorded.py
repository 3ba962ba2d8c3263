"""Marked tests that have no record in this run, and why: skipped, not collected, or left to other shards.

Without the reasons a comparison would take such tests for removed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.environment.revision import below_checkout
from pytest_quant.marks import SERIES_ATTRIBUTE, is_marked

_MOST_LETTERS = 300
_FOUND = pytest.StashKey[Any]()
_COLLECTED = pytest.StashKey[list[pytest.Item]]()
_LEFT = pytest.StashKey[tuple[str, ...]]()
_OF_WORKER = "quant_left_to_others"


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


def shard_of(config: pytest.Config) -> str | None:
    """Return ``3/8`` for the third of eight groups of pytest-split, ``None`` where the suite is not split."""
    splits, group = (config.getoption(name, None) for name in ("splits", "group"))
    return f"{group}/{splits}" if splits and group else None


class BeforeSplit:
    """Sees the tests that are left by options such as ``-k`` and ``-m``: what no shard runs is left to nobody."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Remember them; pytest-split comes next, because its hook is last too, and was registered later."""
        config.stash[_COLLECTED] = list(items)


def note_split(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Remember the quant tests that the split has removed, of which `items` are left.

    A worker of xdist passes them to its controller, which collects nothing.
    """
    if _COLLECTED not in config.stash:
        return
    here = {id(item) for item in items}
    # Here, because a run without a quant test needs none of it.
    from pytest_quant.plugin.collect import nodeid_of

    left = [item for item in config.stash[_COLLECTED] if id(item) not in here and is_marked(item)]
    nodeids = config.stash[_LEFT] = tuple(map(nodeid_of, left))
    getattr(config, "workeroutput", {})[_OF_WORKER] = list(nodeids)


def from_worker(config: pytest.Config, output: Mapping[str, object]) -> None:
    """Remember what a worker has left to other shards; all workers of a run have left the same."""
    left = output.get(_OF_WORKER)
    if isinstance(left, list):
        config.stash[_LEFT] = tuple(left)


def left_to_others(config: pytest.Config) -> tuple[str, ...] | None:
    """Return the node ids of the quant tests that this shard leaves to the others; ``None`` where it is none."""
    return config.stash.get(_LEFT, None)
