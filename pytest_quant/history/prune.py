"""Old runs made smaller: the times of single rounds go, and every figure that is shown stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Row, bindparam, select, update

from pytest_quant.history.connect import open_engine, outside, reading, storage_errors, writing
from pytest_quant.history.rows import pack, unpack
from pytest_quant.history.schema import RECORDS, RUNS
from pytest_quant.record import Record
from pytest_quant.result import LatencyFigures


@dataclass(frozen=True, slots=True)
class Pruned:
    """The numbers of thinned records and of their runs, and the bytes that this freed."""

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
    """Drop the raw times of every run that is neither among the newest `keep_runs` nor started at or after `before`.

    Each run is one transaction, so that a killed process leaves whole records, and the next call continues.

    Parameters
    ----------
    place : file or database URL of the history.
    keep_runs : number of newest runs to leave as they are; ``None`` for no such rule.
    before : prune only runs that started earlier, with a time zone; ``None`` for no such rule.
    dry_run : change nothing, and return what would be freed.

    Raises
    ------
    HistoryError : the history cannot be read or written, or a record of it is damaged.
    """
    engine, shown = open_engine(place)
    oldest_first = select(RUNS.c.number, RUNS.c.id, RUNS.c.started_at).order_by(RUNS.c.started_at, RUNS.c.id)
    with storage_errors(shown, "read"), reading(engine) as connection:
        stored = connection.execute(oldest_first).all()
    runs = records = freed_bytes = 0
    for run in _old(stored, keep_runs, before):
        with storage_errors(shown, "written"), (reading if dry_run else writing)(engine) as connection:
            smaller, freed = _smaller(connection, run.number, run.id)
            if smaller and not dry_run:
                _replace_records(connection, run.number, smaller)
        runs += bool(smaller)
        records += len(smaller)
        freed_bytes += freed
    if records and not dry_run:
        _shrink_file(engine, shown)
    return Pruned(runs, records, freed_bytes)


def _old(
    runs: Sequence[Row[*tuple[Any, ...]]], keep_runs: int | None, before: datetime | None
) -> list[Row[*tuple[Any, ...]]]:
    old = list(runs)
    if keep_runs is not None:
        old = old[: max(0, len(old) - keep_runs)]
    if before is not None:
        old = [run for run in old if _started(run.started_at) < before]
    return old


def _started(text: str) -> datetime:
    """Return the start of a run; one that cannot be parsed counts as the oldest."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _smaller(connection: Connection, number: int, run_id: str) -> tuple[dict[int, bytes], int]:
    """Return the thinned records of a run by position, packed, and the bytes that they free."""
    of_run = select(RECORDS.c.position, RECORDS.c.record).where(RECORDS.c.run == number).order_by(RECORDS.c.position)
    smaller: dict[int, bytes] = {}
    freed_bytes = 0
    for position, stored in connection.execute(of_run):
        record = unpack(stored, f"record {position} of run {run_id}")
        thin = thinned(record)
        if thin != record:
            smaller[position] = pack(thin)
            freed_bytes += len(stored) - len(smaller[position])
    return smaller, freed_bytes


def _replace_records(connection: Connection, number: int, stored: Mapping[int, bytes]) -> None:
    """Replace the stored bytes of some records of a run, by position."""
    row = (RECORDS.c.run == number) & (RECORDS.c.position == bindparam("at"))
    changed = update(RECORDS).where(row).values(record=bindparam("packed"))
    connection.execute(changed, [{"at": position, "packed": packed} for position, packed in stored.items()])


def _shrink_file(engine: Engine, shown: str) -> None:
    """Release the freed space of an SQLite file to the disk; servers do that by themselves."""
    if engine.dialect.name == "sqlite":
        with storage_errors(shown, "made smaller"), outside(engine) as connection:
            connection.exec_driver_sql("VACUUM")
