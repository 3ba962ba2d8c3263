"""Whether everything in a history can be read, and what is left of it when not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import Connection

from pytest_quant.errors import HistoryError
from pytest_quant.history.connect import open_engine, storage_errors
from pytest_quant.history.raw import raw_records, run_rows, run_text
from pytest_quant.history.rows import decode_run
from pytest_quant.history.stream import header_line, run_line
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
    with engine.connect() as connection:
        with storage_errors(shown, "read"):
            ids = [row.id for row in run_rows(connection)]
        for run_id in ids:
            yield _read(connection, run_id, shown)


def _read(connection: Connection, run_id: str, shown: str) -> ReadRun:
    damages: list[Damage] = []
    run: Run | None = None
    records: list[Record] = []
    try:
        with storage_errors(shown, "read"):
            run = decode_run(run_text(connection, run_id))
    except HistoryError as error:
        damages.append(Damage(run_id, None, _reason(error)))
    try:
        with storage_errors(shown, "read"):
            rows = list(raw_records(connection, run_id))
    except HistoryError as error:
        return ReadRun(run, (), (*damages, Damage(run_id, None, _reason(error))))
    for place, row in enumerate(rows):
        try:
            records.append(row.decode())
        except HistoryError as error:
            damages.append(Damage(run_id, row.position, _reason(error)))
        if row.position != place and not damages:
            damages.append(Damage(run_id, place, "it is missing"))
    return ReadRun(run, tuple(records), tuple(damages))


def _reason(error: HistoryError) -> str:
    return f"{error.what}: {error.value}" if error.value else error.what
