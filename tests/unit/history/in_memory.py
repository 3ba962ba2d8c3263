"""Histories in memory, and points of a series that nobody measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_quant.history.rows import StoredCheck, StoredRun
from pytest_quant.history.store import Store
from pytest_quant.history.summaries import CheckSummary
from pytest_quant.record import Record, Run
from pytest_quant.result import Status


class InMemory(Store):
    """Records in the order in which they were made."""

    def __init__(self, checks: tuple[StoredCheck, ...]) -> None:
        self._checks = checks

    left_out = ""

    def commits(self, ids: Sequence[str], below: str = "") -> set[str]:
        """Those of a clean tree."""
        clean = [each.run for each in self._checks if not each.run.dirty and below in each.record.series]
        return {each for run in clean for each in (run.commit, run.tree) if each in ids and each}

    def launches(self, *ids: str, series: str | None = None) -> list[StoredCheck]:
        """Those of the clean commits or trees, of one series or of all."""
        clean = [each for each in self._checks if {each.run.commit, each.run.tree} & set(ids) and not each.run.dirty]
        return [each for each in clean if series in (None, each.record.series)]

    def points_of(self, commits: Sequence[str]) -> list[CheckSummary]:
        """Summaries of the latency of every series."""
        return [
            CheckSummary.from_record(run, record)
            for run, record in ((each.run, each.record) for each in self._checks)
            if run.commit in commits and not run.dirty
        ]


class MemoryStore:
    """The methods of `Store` that moving data needs."""

    def __init__(self) -> None:
        self.runs_by_id: dict[str, tuple[Run, tuple[Record, ...]]] = {}

    def append(self, run: Run, records: Sequence[Record]) -> bool:
        """Add a run once."""
        new = run.id not in self.runs_by_id
        self.runs_by_id.setdefault(run.id, (run, tuple(records)))
        return new

    def append_many(self, runs: Iterable[tuple[Run, Sequence[Record]]]) -> tuple[int, int]:
        """Added, and already there."""
        added = [self.append(run, records) for run, records in runs]
        return sum(added), len(added) - sum(added)

    def runs(self) -> list[StoredRun]:
        """Newest first."""
        newest = sorted(self.runs_by_id.values(), key=lambda entry: entry[0].started_at, reverse=True)
        return [StoredRun(run, {}) for run, _ in newest]

    def records(self, run_id: str) -> list[Record]:
        """Of one run."""
        return list(self.runs_by_id[run_id][1])

    def each_run(self) -> Iterator[tuple[Run, tuple[Record, ...]]]:
        """Oldest first."""
        yield from sorted(self.runs_by_id.values(), key=lambda entry: entry[0].started_at)


def a_point(number: int, **figures: object) -> CheckSummary:
    """The point of one commit a day."""
    defaults: dict[str, object] = {
        "run_id": f"run-{number}",
        "started_at": f"2026-{number // 28 + 1:02}-{number % 28 + 1:02}T00:00:00+00:00",
        "commit": f"c{number}",
        "branch": "main",
        "dirty": False,
        "series": "key",
        "version": "v",
        "identity": "machine",
        "isa": "avx2",
        "status": Status.PASS,
        "metric": "top1",
        "unit": "%",
        "better": "higher",
    }
    return CheckSummary(**(defaults | figures))  # type: ignore[arg-type]
