"""The rows of a history as they are stored, which may be damaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, update

from pytest_quant.history.rows import decode_record, encode
from pytest_quant.history.schema import CHECKS, RUNS
from pytest_quant.record import Record, to_json


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One stored record: its row, its place in the run, and what is stored."""

    row: int
    position: int
    stored: Any

    def decode(self) -> Record:
        """Return the record. Raises `HistoryError` when it is damaged."""
        return decode_record(self.stored)


def run_rows(connection: Connection) -> list[Row[Any]]:
    """Return id and start of every run, oldest first, without reading the rest of it."""
    return list(connection.execute(select(RUNS.c.id, RUNS.c.started_at).order_by(RUNS.c.started_at, RUNS.c.id)))


def run_text(connection: Connection, run_id: str) -> Any:
    """Return what is stored of a run."""
    return connection.execute(select(RUNS.c.run).where(RUNS.c.id == run_id)).scalar_one()


def raw_records(connection: Connection, run_id: str) -> Iterator[RawRecord]:
    """Give the rows of one run, in their order."""
    wanted = select(CHECKS.c.id, CHECKS.c.position, CHECKS.c.record).where(CHECKS.c.run_id == run_id)
    for row in connection.execute(wanted.order_by(CHECKS.c.position)).all():
        yield RawRecord(*row)


def stored_bytes(stored: Any) -> int:
    """Return the size of what is stored."""
    return len(stored) if isinstance(stored, bytes) else len(str(stored).encode())


def stored_form(record: Record) -> Any:
    """Return what is stored of a record."""
    return encode(to_json(record))


def replace_records(connection: Connection, stored_by_row: dict[int, Any]) -> None:
    """Store something else in these rows."""
    changed = update(CHECKS).where(CHECKS.c.id == bindparam("row")).values(record=bindparam("stored"))
    connection.execute(changed, [{"row": row, "stored": stored} for row, stored in stored_by_row.items()])
