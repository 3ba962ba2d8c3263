"""Suites that run in shards: which shards and tests of a commit are missing, and what each test costs."""

from __future__ import annotations

import re
import statistics
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_quant.history.rows import to_utc
from pytest_quant.record import Run

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

_SHARD = re.compile(r"([1-9]\d{0,3})/([1-9]\d{0,3})")
"""At most 9999, because each one that is missing is named."""


@dataclass(frozen=True, slots=True)
class Unreported:
    """What is missing of a suite that ran in shards; what ran as a whole has nothing missing.

    Attributes
    ----------
    shards : that never came to their end, ``3/8`` for the third of eight, or ``2 of unknown number``.
    tests : node ids of the tests that every shard that came to its end left to others, and that have no record.
    """

    shards: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is missing."""
        return bool(self.shards or self.tests)


def find_unreported(runs: Iterable[Run], tests: Collection[str], expected: int = 0) -> Unreported:
    """Return what is missing of the runs of one commit.

    Tests may be missing although no shard is: shards that were split by different durations overlap elsewhere.

    Parameters
    ----------
    runs : of the commit, of all its jobs; a shard counts once, however often it ran.
    tests : node ids of their records.
    expected : number of shards, where it is known; a run that is no shard stands for none.
    """
    left_by: dict[int, dict[int, list[set[str]]]] = {}
    for run in runs:
        if matched := _SHARD.fullmatch(run.shard or ""):
            number, total = map(int, matched.groups())
            of_shard = left_by.setdefault(total, {}).setdefault(number, [])
            of_shard += [] if run.deselected is None else [set(run.deselected)]
    lost, orphans, ended = [], set(), 0
    for total, shards in sorted(left_by.items()):
        lists = [left for of_shard in shards.values() for left in of_shard]
        orphans |= set.intersection(*lists) if lists else set()
        lost += [f"{number}/{total}" for number in range(1, total + 1) if not shards.get(number)]
        ended += sum(map(bool, shards.values()))
    unknown = expected - ended - len(lost)
    lost += [f"{unknown} of unknown number"] if unknown > 0 else []
    return Unreported(tuple(lost), tuple(sorted(orphans - set(tests))))


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
    newest = sorted(runs, key=lambda each: (to_utc(each[0].started_at), each[0].id), reverse=True)
    machine = newest[0][0].environment.identity
    alike = [spent_s for run, spent_s in newest if run.environment.identity == machine]
    return statistics.median(alike[:_NEWEST])
