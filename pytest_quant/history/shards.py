"""Shards of one commit: which of them never reported, and which tests none of them ran."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pytest_quant.record import Run

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
