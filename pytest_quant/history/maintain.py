"""Maintenance of a history: find damaged rows, drop the raw times of old runs."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import Connection, Engine, bindparam, func, inspect, select, update

from pytest_quant.errors import HistoryError
from pytest_quant.history.connect import open_engine, outside, reading, storage_errors, writing
from pytest_quant.history.exchange.stream import header_line, run_line
from pytest_quant.history.rows import decode_run, pack, unpack
from pytest_quant.history.schema import CHECKS, METADATA, RECORDS, RUNS
from pytest_quant.record import LatencyFigures, Record, Run
from pytest_quant.whole_file import whole_file


@dataclass(frozen=True, slots=True)
class RawRun:
    """The row of a run: its number, its id, and its start in UTC as the database sorts it."""

    number: int
    id: str
    started_at: str


@dataclass(frozen=True, slots=True)
class RawRecord:
    """The position of a record in its run, from 0, and its stored bytes; ``None`` when the row is missing."""

    position: int
    stored: bytes | None

    def decode(self, run_id: str) -> Record:
        """Return the record, of the run with this id. Raises `HistoryError` when it is damaged."""
        if self.stored is None:
            raise HistoryError("its details are missing")
        return unpack(self.stored, f"record {self.position} of run {run_id}")


def raw_runs(connection: Connection) -> list[RawRun]:
    """Return every run, oldest first, without reading its document."""
    wanted = select(RUNS.c.number, RUNS.c.id, RUNS.c.started_at).order_by(RUNS.c.started_at, RUNS.c.id)
    return [RawRun(*row) for row in connection.execute(wanted)]


def last_number(connection: Connection) -> int:
    """Return the number of the run added last, read from the records because the runs may be damaged."""
    return int(connection.execute(select(func.max(RECORDS.c.run))).scalar() or 0)


def raw_run(connection: Connection, number: int) -> RawRun | None:
    """Return the run with this number, ``None`` when there is none."""
    wanted = select(RUNS.c.number, RUNS.c.id, RUNS.c.started_at).where(RUNS.c.number == number)
    row = connection.execute(wanted).one_or_none()
    return None if row is None else RawRun(*row)


def read_run(connection: Connection, run: RawRun) -> Run:
    """Return the document of a run. Raises `HistoryError` when it is damaged."""
    wanted = select(RUNS.c.run).where(RUNS.c.number == run.number)
    return decode_run(connection.execute(wanted).scalar_one(), f"run {run.id}")


def raw_records(connection: Connection, run: RawRun) -> list[RawRecord]:
    """Return the records of one run, in their order."""
    same = (RECORDS.c.run == CHECKS.c.run) & (RECORDS.c.position == CHECKS.c.position)
    wanted = select(CHECKS.c.position, RECORDS.c.record).outerjoin(RECORDS, same).where(CHECKS.c.run == run.number)
    return [RawRecord(*row) for row in connection.execute(wanted.order_by(CHECKS.c.position))]


def replace_records(connection: Connection, run: RawRun, stored: Mapping[int, bytes]) -> None:
    """Replace the stored bytes of some records.

    Parameters
    ----------
    connection : in a transaction that writes.
    run : of the records.
    stored : new bytes by position in the run.
    """
    row = (RECORDS.c.run == bindparam("of_run")) & (RECORDS.c.position == bindparam("at"))
    changed = update(RECORDS).where(row).values(record=bindparam("kept"))
    connection.execute(changed, [{"of_run": run.number, "at": at, "kept": kept} for at, kept in stored.items()])


@dataclass(frozen=True, slots=True)
class Damage:
    """A record that cannot be read, by its position in the run from 0; without one a run; without a run a table."""

    run_id: str | None
    position: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class ReadRun:
    """The readable part of one run; `run` is ``None`` when its document is damaged."""

    run: Run | None
    records: tuple[Record, ...]
    damages: tuple[Damage, ...]


@dataclass(frozen=True, slots=True)
class Verified:
    """The numbers of readable runs and records, and every damage."""

    runs: int
    records: int
    damages: tuple[Damage, ...]


def verify(runs: Iterable[ReadRun]) -> Verified:
    """Count the runs, records and damages that `read_each` yields."""
    whole = records = 0
    damages: list[Damage] = []
    for read in runs:
        whole += read.run is not None
        records += len(read.records)
        damages += read.damages
    return Verified(whole, records, tuple(damages))


def salvage(runs: Iterable[ReadRun], path: Path) -> Verified:
    """Write everything readable to a new file, which ``pytest-quant import`` reads, and count it.

    Raises
    ------
    HistoryError : the file exists already, or it cannot be written.
    """
    try:
        if path.is_file():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        with whole_file(path) as stream:
            return verify(_written(runs, stream))
    except OSError as error:
        raise HistoryError(
            f"{path} cannot be written", value=error.strerror or str(error), fix="name a new file on a disk with room"
        ) from error


def _written(runs: Iterable[ReadRun], stream: BinaryIO) -> Iterator[ReadRun]:
    stream.write(header_line())
    for read in runs:
        if read.run is not None:
            stream.write(run_line(read.run, read.records))
        yield read


def read_each(place: str | Path) -> Iterator[ReadRun]:
    """Yield one run after the other, oldest first; damaged rows are named and left out.

    Raises
    ------
    HistoryError : the history cannot be opened, or its runs cannot be listed in any way.
    """
    engine, shown = open_engine(place)
    with reading(engine) as connection:
        with storage_errors(shown, "read"):
            present = set(inspect(connection).get_table_names())
        missing = [name for name in METADATA.tables if name not in present]
        yield from (ReadRun(None, (), (Damage(None, None, f"the table {name} is missing"),)) for name in missing)
        if RUNS.name in missing and RECORDS.name in missing:
            return
        for run in _runs(connection, shown):
            yield run if isinstance(run, ReadRun) else _read(connection, run, shown)


def _runs(connection: Connection, shown: str) -> Iterator[RawRun | ReadRun]:
    """Yield every run; where they cannot be listed, each is read by its number, and a damaged one yields its damage."""
    try:
        with storage_errors(shown, "read"):
            listed = raw_runs(connection)
    except HistoryError:
        connection.rollback()
    else:
        yield from listed
        return
    with storage_errors(shown, "read"):
        last = last_number(connection)
    for number in range(1, last + 1):
        try:
            with storage_errors(shown, "read"):
                run = raw_run(connection, number)
        except HistoryError as error:
            connection.rollback()
            yield ReadRun(None, (), (Damage(f"run number {number}", None, _reason(error)),))
        else:
            if run is not None:
                yield run


def _read(connection: Connection, raw: RawRun, shown: str) -> ReadRun:
    damages: list[Damage] = []
    run: Run | None = None
    rows: list[RawRecord] = []
    records: list[Record] = []
    try:
        with storage_errors(shown, "read"):
            run = read_run(connection, raw)
            rows = raw_records(connection, raw)
    except HistoryError as error:
        # PostgreSQL refuses every further query in a transaction that failed.
        connection.rollback()
        damages.append(Damage(raw.id, None, _reason(error)))
    missing = set(range(rows[-1].position if rows else 0)) - {row.position for row in rows}
    damages += [Damage(raw.id, position, "it is missing") for position in sorted(missing)]
    for row in rows:
        try:
            records.append(row.decode(raw.id))
        except HistoryError as error:
            damages.append(Damage(raw.id, row.position, _reason(error)))
    return ReadRun(run, tuple(records), tuple(damages))


def _reason(error: HistoryError) -> str:
    return f"{error.what}: {error.value}" if error.value else error.what


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
    """Return the start of a run; one that cannot be parsed counts as the oldest."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _smaller(connection: Connection, run: RawRun) -> tuple[dict[int, bytes], int]:
    """Return the thinned records by position, packed, and the bytes that they free."""
    smaller: dict[int, bytes] = {}
    freed_bytes = 0
    for raw in raw_records(connection, run):
        if raw.stored is None:
            continue
        record = raw.decode(run.id)
        thin = thinned(record)
        if thin != record:
            smaller[raw.position] = pack(thin)
            freed_bytes += len(raw.stored) - len(smaller[raw.position])
    return smaller, freed_bytes


def _shrink_file(engine: Engine, shown: str) -> None:
    """Release the freed space of an SQLite file to the disk; servers do that by themselves."""
    if engine.dialect.name == "sqlite":
        with storage_errors(shown, "made smaller"), outside(engine) as connection:
            connection.exec_driver_sql("VACUUM")
