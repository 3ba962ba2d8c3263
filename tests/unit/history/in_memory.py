"""A history in memory, for what asks for the records of commits only."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_quant.history import StoredCheck
from pytest_quant.history.store import Store
from pytest_quant.history.summaries import CheckSummary


class InMemory(Store):
    """Records in the order in which they were made."""

    def __init__(self, checks: tuple[StoredCheck, ...]) -> None:
        self.kept = checks

    def commits(self, known: Sequence[str]) -> set[str]:
        """Those of a clean tree."""
        clean = [one.run for one in self.kept if not one.run.dirty]
        return {one for run in clean for one in (run.commit, run.tree) if one in known and one}

    def launches(self, *known: str) -> list[StoredCheck]:
        """Those of the clean commits or trees."""
        return [one for one in self.kept if {one.run.commit, one.run.tree} & set(known) and not one.run.dirty]

    def launches_of(self, series: str, commits: Sequence[str]) -> list[StoredCheck]:
        """Those of one series of the clean commits."""
        return [launch for launch in self.launches(*commits) if launch.record.series == series]

    def points_of(self, commits: Sequence[str]) -> list[CheckSummary]:
        """Summaries of the latency of every series."""
        return [
            CheckSummary.of(run, record)
            for run, record in ((one.run, one.record) for one in self.kept)
            if run.commit in commits and not run.dirty
        ]
