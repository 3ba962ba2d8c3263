"""Adding runs: whole, once, and without one process waiting for another that waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Table, insert, select

from pytest_quant.history.rows import Row, check_row, digest_of, pack, run_row, series_row
from pytest_quant.history.schema import CHECKS, RECORDS, RUNS, SERIES
from pytest_quant.record import Record, Run

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


_RECORDS_AT_ONCE = 2000
_RUNS_AT_ONCE = 500
_ASKED_AT_ONCE = 5000

RunToAdd = tuple[Run, Sequence[Record]]


def batches(runs: Iterable[RunToAdd]) -> Iterator[list[RunToAdd]]:
    """Cut `runs` into lists that fit into memory and into one short transaction, whatever its length."""
    batch: list[RunToAdd] = []
    records = 0
    for run, kept in runs:
        batch.append((run, kept))
        records += len(kept)
        if records >= _RECORDS_AT_ONCE or len(batch) >= _RUNS_AT_ONCE:
            yield batch
            batch, records = [], 0
    if batch:
        yield batch


def add_runs(connection: Connection, batch: Sequence[RunToAdd]) -> int:
    """Add the runs that are not there yet, in the transaction of `connection`; return how many were added."""
    summaries = [(str(row["id"]), row, run, records) for run, records in batch for row in (run_row(run),)]
    # Series before runs, each sorted: two processes that add the same ones take their locks in the same order.
    series = _series_numbers(
        connection, {record.series: series_row(record) for _, records in batch for record in records}.values()
    )
    new = _new_runs(connection, {run_id: row for run_id, row, _, _ in reversed(summaries)})
    checks: list[Row] = []
    kept: list[Row] = []
    added = 0
    for run_id, row, run, records in summaries:
        number = new.pop(run_id, None)
        if number is None:
            continue
        added += 1
        for position, record in enumerate(records):
            place: Row = {"run": number, "position": position}
            digest = digest_of(record.series)
            checks.append(place | {"series": series[digest], "started_at": row["started_at"]} | check_row(run, record))
            kept.append(place | {"record": pack(record)})
    if checks:
        connection.execute(insert(CHECKS), checks)
        connection.execute(insert(RECORDS), kept)
    return added


def _series_numbers(connection: Connection, rows: Iterable[Row]) -> dict[str, int]:
    wanted = {str(row["digest"]): row for row in rows}
    found: dict[str, int] = {}
    for _ in range(2):
        missing = sorted(wanted.keys() - found.keys())
        for start in range(0, len(missing), _ASKED_AT_ONCE):
            asked = missing[start : start + _ASKED_AT_ONCE]
            rows_found = connection.execute(select(SERIES.c.digest, SERIES.c.number).where(SERIES.c.digest.in_(asked)))
            found |= {str(digest): int(number) for digest, number in rows_found}
        new = [wanted[digest] for digest in missing if digest not in found]
        if not new:
            break
        connection.execute(_insert_where_new(connection, SERIES), new)
    return found


def _new_runs(connection: Connection, rows: dict[str, Row]) -> dict[str, int]:
    """Insert the runs that are not there yet and return their numbers by id."""
    if not rows:
        return {}
    inserting = _insert_where_new(connection, RUNS).returning(RUNS.c.id, RUNS.c.number)
    found = connection.execute(inserting, [rows[run_id] for run_id in sorted(rows)])
    return {str(run_id): int(number) for run_id, number in found}


def _insert_where_new(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Both databases spell it alike, and SQLAlchemy has one construct for each."""
    # Loaded here: readers need neither, and the one for PostgreSQL takes a tenth of a short command's time.
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table).on_conflict_do_nothing()
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table).on_conflict_do_nothing()
