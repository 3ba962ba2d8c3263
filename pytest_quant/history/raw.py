"""The rows of a history as they are stored, which may be damaged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select, update

from pytest_quant.errors import HistoryError
from pytest_quant.history.rows import decode_run, unpack
from pytest_quant.history.schema import CHECKS, RECORDS, RUNS
from pytest_quant.record import Record, Run


@dataclass(frozen=True, slots=True)
class RawRun:
    """The row of a run: its number, its id, and when it started as the database sorts it."""

    number: int
    id: str
    started_at: str


@dataclass(frozen=True, slots=True)
class RawRecord:
    """The place of a record in its run, from 0, and what is stored of it."""

    position: int
    stored: bytes | None

    def decode(self) -> Record:
        """Return the record. Raises `HistoryError` when it is damaged."""
        if self.stored is None:
            raise HistoryError("its details are missing")
        return unpack(self.stored)


def raw_runs(connection: Connection) -> list[RawRun]:
    """Return every run, oldest first, without reading what is stored of it."""
    wanted = select(RUNS.c.number, RUNS.c.id, RUNS.c.started_at).order_by(RUNS.c.started_at, RUNS.c.id)
    return [RawRun(*row) for row in connection.execute(wanted)]


def last_number(connection: Connection) -> int:
    """Return the number of the run added last, from its records where those of the runs cannot be read."""
    return int(connection.execute(select(func.max(RECORDS.c.run))).scalar() or 0)


def raw_run(connection: Connection, number: int) -> RawRun | None:
    """Return the run of this number, found by its number alone; ``None`` when there is none."""
    wanted = select(RUNS.c.number, RUNS.c.id, RUNS.c.started_at).where(RUNS.c.number == number)
    row = connection.execute(wanted).one_or_none()
    return None if row is None else RawRun(*row)


def read_run(connection: Connection, run: RawRun) -> Run:
    """Return what is stored of a run. Raises `HistoryError` when it is damaged."""
    return decode_run(connection.execute(select(RUNS.c.run).where(RUNS.c.number == run.number)).scalar_one())


def raw_records(connection: Connection, run: RawRun) -> list[RawRecord]:
    """Return the records of one run, in their order."""
    same = (RECORDS.c.run == CHECKS.c.run) & (RECORDS.c.position == CHECKS.c.position)
    wanted = select(CHECKS.c.position, RECORDS.c.record).outerjoin(RECORDS, same).where(CHECKS.c.run == run.number)
    return [RawRecord(*row) for row in connection.execute(wanted.order_by(CHECKS.c.position))]


def replace_records(connection: Connection, run: RawRun, stored: Mapping[int, bytes]) -> None:
    """Store something else for the records at these places."""
    row = (RECORDS.c.run == bindparam("of_run")) & (RECORDS.c.position == bindparam("at"))
    changed = update(RECORDS).where(row).values(record=bindparam("kept"))
    connection.execute(changed, [{"of_run": run.number, "at": at, "kept": kept} for at, kept in stored.items()])
