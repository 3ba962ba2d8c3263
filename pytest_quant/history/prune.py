"""Old runs without the median of each timed round: what judging them again would need, and reading them does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine

from pytest_quant.history.connect import open_engine, storage_errors
from pytest_quant.history.raw import raw_records, replace_records, run_rows, stored_bytes, stored_form
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
    runs = records = freed_bytes = 0
    with storage_errors(shown, "read"), engine.connect() as connection:
        old = _old(run_rows(connection), keep_runs, before)
    for run_id in old:
        with storage_errors(shown, "written"), engine.begin() as connection:
            smaller, freed = _smaller(connection, run_id)
            if smaller and not dry_run:
                replace_records(connection, smaller)
        runs += bool(smaller)
        records += len(smaller)
        freed_bytes += freed
    if records and not dry_run:
        _give_back(engine, shown)
    return Pruned(runs, records, freed_bytes)


def _old(rows: Sequence[Any], keep_runs: int | None, before: datetime | None) -> list[str]:
    old = list(rows)
    if keep_runs is not None:
        old = old[: max(0, len(old) - keep_runs)]
    if before is not None:
        old = [row for row in old if _started(row.started_at) < before]
    return [row.id for row in old]


def _started(text: str) -> datetime:
    """Read the start of a run; one that cannot be read is as old as can be."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _smaller(connection: Connection, run_id: str) -> tuple[dict[int, Any], int]:
    smaller: dict[int, Any] = {}
    freed_bytes = 0
    for row in raw_records(connection, run_id):
        record = row.decode()
        thin = thinned(record)
        if thin != record:
            smaller[row.row] = stored_form(thin)
            freed_bytes += stored_bytes(row.stored) - stored_bytes(smaller[row.row])
    return smaller, freed_bytes


def _give_back(engine: Engine, shown: str) -> None:
    """Make the file of SQLite smaller; other databases do that by themselves."""
    if engine.dialect.name == "sqlite":
        with storage_errors(shown, "made smaller"), engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql("VACUUM")
