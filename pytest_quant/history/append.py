"""Runs added to the tables of a history: each run whole or not at all, each series once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Table, insert, select

from pytest_quant.history.rows import Row, digest_of, pack, run_row, series_row
from pytest_quant.history.schema import CHECKS, RECORDS, RUNS, SERIES
from pytest_quant.history.summaries import CheckSummary
from pytest_quant.record import Encoded, Record, Run

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

_ADDED_RECORDS_AT_ONCE = 2000
_ADDED_RUNS_AT_ONCE = 500
_LOOKED_UP_AT_ONCE = 5000

RunToAdd = tuple[Run, Sequence[Record | Encoded]]


def batches(runs: Iterable[RunToAdd]) -> Iterator[list[RunToAdd]]:
    """Split `runs` into lists that fit into memory and into one short transaction."""
    batch: list[RunToAdd] = []
    records = 0
    for run, of_run in runs:
        batch.append((run, of_run))
        records += len(of_run)
        if records >= _ADDED_RECORDS_AT_ONCE or len(batch) >= _ADDED_RUNS_AT_ONCE:
            yield batch
            batch, records = [], 0
    if batch:
        yield batch


def add_runs(connection: Connection, batch: Sequence[RunToAdd]) -> int:
    """Add the runs that are not stored yet, in the transaction of `connection`, and return their number."""
    summaries = [(str(row["id"]), row, run, records) for run, records in batch for row in (run_row(run),)]
    # Series before runs, each sorted: two processes that add the same ones take their locks in the same order.
    series = _series_numbers(
        connection,
        {encoded.series: series_row(encoded) for _, records in batch for encoded in map(_record, records)}.values(),
    )
    new = _new_runs(connection, {run_id: row for run_id, row, _, _ in reversed(summaries)})
    checks: list[Row] = []
    rows: list[Row] = []
    added = 0
    for run_id, row, run, records in summaries:
        number = new.pop(run_id, None)
        if number is None:
            continue
        added += 1
        for position, each in enumerate(records):
            record = _record(each)
            place: Row = {"run": number, "position": position}
            digest = digest_of(record.series)
            summary = CheckSummary.of(run, record)
            checks.append(
                place
                | {"series": series[digest], "started_at": row["started_at"]}
                | {"status": summary.status.value, "figures": summary.figures}
            )
            rows.append(place | {"record": pack(each)})
    if checks:
        connection.execute(insert(CHECKS), checks)
        connection.execute(insert(RECORDS), rows)
    return added


def _record(one: Record | Encoded) -> Record:
    return one.record if isinstance(one, Encoded) else one


def _series_numbers(connection: Connection, rows: Iterable[Row]) -> dict[str, int]:
    wanted = {str(row["digest"]): row for row in rows}
    numbers: dict[str, int] = {}
    for _ in range(2):
        missing = sorted(wanted.keys() - numbers.keys())
        for start in range(0, len(missing), _LOOKED_UP_AT_ONCE):
            portion = missing[start : start + _LOOKED_UP_AT_ONCE]
            rows_found = connection.execute(
                select(SERIES.c.digest, SERIES.c.number).where(SERIES.c.digest.in_(portion))
            )
            numbers |= {str(digest): int(number) for digest, number in rows_found}
        new = [wanted[digest] for digest in missing if digest not in numbers]
        if not new:
            break
        connection.execute(_insert_where_new(connection, SERIES), new)
    return numbers


def _new_runs(connection: Connection, rows: dict[str, Row]) -> dict[str, int]:
    """Insert the runs that are not stored yet, and return their numbers by id."""
    if not rows:
        return {}
    inserting = _insert_where_new(connection, RUNS).returning(RUNS.c.id, RUNS.c.number)
    inserted = connection.execute(inserting, [rows[run_id] for run_id in sorted(rows)])
    return {str(run_id): int(number) for run_id, number in inserted}


def _insert_where_new(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Return an insert that skips existing rows, for which SQLAlchemy has one construct for each database."""
    # Imported here: readers need neither, and the one for PostgreSQL takes a tenth of a short command's time.
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table).on_conflict_do_nothing()
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table).on_conflict_do_nothing()
