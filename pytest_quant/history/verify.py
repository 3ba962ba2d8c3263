"""Whether everything in a history can be read, and what is left of it when not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import Connection

from pytest_quant.errors import HistoryError
from pytest_quant.history.connect import open_engine, storage_errors
from pytest_quant.history.raw import RawRecord, RawRun, last_number, raw_records, raw_run, raw_runs, read_run
from pytest_quant.history.stream import header_line, run_line
from pytest_quant.history.transactions import reading
from pytest_quant.record import Record, Run


@dataclass(frozen=True, slots=True)
class Damage:
    """What cannot be read: a record, by its place in the run from 0, or a whole run (``None``)."""

    run_id: str
    position: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class ReadRun:
    """What can be read of one run; `run` is ``None`` when the run itself cannot."""

    run: Run | None
    records: tuple[Record, ...]
    damages: tuple[Damage, ...]


@dataclass(frozen=True, slots=True)
class Verified:
    """How many runs and records can be read, and what cannot."""

    runs: int
    records: int
    damages: tuple[Damage, ...]


def verify(runs: Iterable[ReadRun]) -> Verified:
    """Count what `read_each` read."""
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
    HistoryError : there is a file already, or it cannot be written.
    """
    try:
        with path.open("xb") as stream:
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
    """Read one run after the other, oldest first; what is damaged is named and left out.

    Raises
    ------
    HistoryError : the history cannot be opened, or not even the runs in it can be listed.
    """
    engine, shown = open_engine(place)
    with reading(engine) as connection:
        for run in _runs(connection, shown):
            yield run if isinstance(run, ReadRun) else _read(connection, run, shown)


def _runs(connection: Connection, shown: str) -> Iterator[RawRun | ReadRun]:
    """Give every run; where they cannot be listed each is looked for by its number, and damage takes its place."""
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
                found = raw_run(connection, number)
        except HistoryError as error:
            connection.rollback()
            yield ReadRun(None, (), (Damage(f"run number {number}", None, _reason(error)),))
        else:
            if found is not None:
                yield found


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
        # PostgreSQL answers nothing more in a transaction that failed.
        connection.rollback()
        damages.append(Damage(raw.id, None, _reason(error)))
    missing = set(range(rows[-1].position if rows else 0)) - {row.position for row in rows}
    damages += [Damage(raw.id, position, "it is missing") for position in sorted(missing)]
    for row in rows:
        try:
            records.append(row.decode())
        except HistoryError as error:
            damages.append(Damage(raw.id, row.position, _reason(error)))
    return ReadRun(run, tuple(records), tuple(damages))


def _reason(error: HistoryError) -> str:
    return f"{error.what}: {error.value}" if error.value else error.what
