"""Old runs without the median of each timed round: what judging them again would need, and reading them does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, Engine

from pytest_quant.history.connect import open_engine, storage_errors
from pytest_quant.history.raw import RawRun, raw_records, raw_runs, replace_records
from pytest_quant.history.rows import pack
from pytest_quant.history.transactions import outside, reading, writing
from pytest_quant.record import LatencyFigures, Record


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many records of how many runs were thinned, and the bytes that freed."""

    runs: int
    records: int
    freed_bytes: int


def thinned(record: Record) -> Record:
    """Return `record` without the rounds of its latency; every other figure stays."""
    return record if record.latency is None else replace(record, latency=_without_rounds(record.latency))


def _without_rounds(latency: LatencyFigures) -> LatencyFigures:
    repeat = None if latency.repeat is None else _without_rounds(latency.repeat)
    return replace(latency, round_p50_ms={}, repeat=repeat)


def prune(
    place: str | Path, *, keep_runs: int | None = None, before: datetime | None = None, dry_run: bool = False
) -> Pruned:
    """Thin every run that is neither among the newest `keep_runs` nor started at or after `before`.

    Each run is one transaction, so that a killed process leaves whole records, and the next call goes on.

    Raises
    ------
    HistoryError : the history cannot be read or written, or a record of it is damaged.
    """
    engine, shown = open_engine(place)
    with storage_errors(shown, "read"), reading(engine) as connection:
        old = _old(raw_runs(connection), keep_runs, before)
    runs = records = freed_bytes = 0
    for run in old:
        with storage_errors(shown, "written"), (reading if dry_run else writing)(engine) as connection:
            smaller, freed = _smaller(connection, run)
            if smaller and not dry_run:
                replace_records(connection, run, smaller)
        runs += bool(smaller)
        records += len(smaller)
        freed_bytes += freed
    if records and not dry_run:
        _shrink_file(engine, shown)
    return Pruned(runs, records, freed_bytes)


def _old(runs: Sequence[RawRun], keep_runs: int | None, before: datetime | None) -> list[RawRun]:
    old = list(runs)
    if keep_runs is not None:
        old = old[: max(0, len(old) - keep_runs)]
    if before is not None:
        old = [run for run in old if _started(run.started_at) < before]
    return old


def _started(text: str) -> datetime:
    """Read the start of a run; one that cannot be read is as old as can be."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _smaller(connection: Connection, run: RawRun) -> tuple[dict[int, bytes], int]:
    """Return what would be stored instead, by place, and the bytes that frees."""
    smaller: dict[int, bytes] = {}
    freed_bytes = 0
    for raw in raw_records(connection, run):
        if raw.stored is None:
            continue
        record = raw.decode()
        thin = thinned(record)
        if thin != record:
            smaller[raw.position] = pack(thin)
            freed_bytes += len(raw.stored) - len(smaller[raw.position])
    return smaller, freed_bytes


def _shrink_file(engine: Engine, shown: str) -> None:
    """Give the room back to the disk where a file holds the history; servers do that by themselves."""
    if engine.dialect.name == "sqlite":
        with storage_errors(shown, "made smaller"), outside(engine) as connection:
            connection.exec_driver_sql("VACUUM")
