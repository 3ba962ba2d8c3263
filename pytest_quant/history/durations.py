"""What each test costs, by the newest records of a history: the file by which pytest-split splits a suite."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from pytest_quant.history.rows import in_utc
from pytest_quant.history.store import Store
from pytest_quant.record import Run

_NEWEST = 5
"""Runs of a test whose median counts: one that was slow by chance, or built what the others found, changes little."""

_LEAST_S = 0.001
"""Tests that cost nothing would all be put into one group."""


def durations_s(store: Store) -> dict[str, float]:
    """Return the seconds that each test costs, by node id; of a test without a measured check nothing is said.

    It is the median of its newest runs on the kind of machine that the last of them ran on; checks of one run add up.
    """
    of_test: dict[str, dict[str, tuple[Run, float]]] = {}
    for check in store.newest(_NEWEST):
        if check.record.cost is not None:
            runs = of_test.setdefault(check.record.nodeid, {})
            _, spent_s = runs.get(check.run.id, (check.run, 0.0))
            runs[check.run.id] = check.run, spent_s + check.record.cost.total_s
    return {nodeid: max(_LEAST_S, round(_median_s(runs.values()), 3)) for nodeid, runs in sorted(of_test.items())}


def _median_s(runs: Iterable[tuple[Run, float]]) -> float:
    newest = sorted(runs, key=lambda each: (in_utc(each[0].started_at), each[0].id), reverse=True)
    machine = newest[0][0].environment.identity
    alike = [spent_s for run, spent_s in newest if run.environment.identity == machine]
    return statistics.median(alike[:_NEWEST])
