"""A history in memory, for what is built on top of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_quant.history import StoredRun
from pytest_quant.record import Record, Run


class MemoryStore:
    """The methods of `Store` that moving data needs."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[Run, tuple[Record, ...]]] = {}

    def append(self, run: Run, records: Sequence[Record]) -> bool:
        """Add a run once."""
        new = run.id not in self.kept
        self.kept.setdefault(run.id, (run, tuple(records)))
        return new

    def append_many(self, runs: Iterable[tuple[Run, Sequence[Record]]]) -> tuple[int, int]:
        """Added, and already there."""
        added = [self.append(run, records) for run, records in runs]
        return sum(added), len(added) - sum(added)

    def runs(self) -> list[StoredRun]:
        """Newest first."""
        newest = sorted(self.kept.values(), key=lambda kept: kept[0].started_at, reverse=True)
        return [StoredRun(run, {}) for run, _ in newest]

    def records(self, run_id: str) -> list[Record]:
        """Of one run."""
        return list(self.kept[run_id][1])

    def each_run(self) -> Iterator[tuple[Run, tuple[Record, ...]]]:
        """Oldest first."""
        yield from sorted(self.kept.values(), key=lambda kept: kept[0].started_at)
