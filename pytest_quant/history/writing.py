"""Runs added to the tables of a history, each whole or not at all; and old ones made smaller.

Pruning drops the times of single rounds: every figure that is shown stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Table, bindparam, insert, select, tuple_, update

from pytest_quant.history.connect import CHECKS, RECORDS, RUNS, SERIES, open_transaction, outside, storage_errors
from pytest_quant.history.rows import Row, pack, run_row, unpack
from pytest_quant.history.summaries import CheckSummary
from pytest_quant.record import EncodedRecord, Record, Run
from pytest_quant.result import LatencyFigures
from pytest_quant.spec import SeriesKey

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

    from pytest_quant.history.store import Store

_ADDED_RECORDS_AT_ONCE = 2000
_ADDED_RUNS_AT_ONCE = 500
_LOOKED_UP_AT_ONCE = 5000

RunToAdd = tuple[Run, Sequence[Record | EncodedRecord]]


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
    names = {_record(each).series for _, records in batch for each in records}
    keys = {name: SeriesKey.parse(name) for name in names}
    series = _series_numbers(connection, {key.digest: key.text for key in keys.values()})
    new_runs = {run_id: row for run_id, row, _, _ in reversed(summaries)}
    inserting = _insert_where_new(connection, RUNS).returning(RUNS.c.id, RUNS.c.number)
    inserted = connection.execute(inserting, [new_runs[run_id] for run_id in sorted(new_runs)]) if new_runs else ()
    new = {str(run_id): int(number) for run_id, number in inserted}
    checks: list[Row] = []
    rows: list[Row] = []
    added = len(new)
    for run_id, row, run, records in summaries:
        number = new.pop(run_id, None)
        if number is None:
            continue
        for position, each in enumerate(records):
            record = _record(each)
            place: Row = {"run": number, "position": position}
            number_of_series = series[keys[record.series].digest]
            summary = CheckSummary.from_record(run, record)
            found: Row = {"status": summary.status.value, "figures": summary.figures}
            checks.append(place | found | {"series": number_of_series, "started_at": row["started_at"]})
            rows.append(place | {"record": pack(each)})
    if checks:
        connection.execute(insert(CHECKS), checks)
        connection.execute(insert(RECORDS), rows)
    return added


def _record(record: Record | EncodedRecord) -> Record:
    return record.record if isinstance(record, EncodedRecord) else record


def _series_numbers(connection: Connection, wanted: Mapping[str, str]) -> dict[str, int]:
    """Return the numbers of series by their digests; `wanted` has their keys, by which those that are new are added."""
    numbers: dict[str, int] = {}
    for _ in range(2):
        missing = sorted(wanted.keys() - numbers.keys())
        for start in range(0, len(missing), _LOOKED_UP_AT_ONCE):
            portion = missing[start : start + _LOOKED_UP_AT_ONCE]
            known = select(SERIES.c.digest, SERIES.c.number).where(SERIES.c.digest.in_(portion))
            numbers |= {str(digest): int(number) for digest, number in connection.execute(known)}
        new = [{"digest": digest, "key": wanted[digest]} for digest in missing if digest not in numbers]
        if not new:
            break
        connection.execute(_insert_where_new(connection, SERIES), new)
    return numbers


def _insert_where_new(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Return an insert that skips existing rows, for which SQLAlchemy has one construct for each database."""
    # Imported here: readers need neither, and the one for PostgreSQL takes a tenth of a short command's time.
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table).on_conflict_do_nothing()
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table).on_conflict_do_nothing()


def prune(store: Store, keep_runs: int, *, dry_run: bool = False) -> tuple[int, int, int]:
    """Drop the raw times of every run that is not among the newest.

    Each run is one transaction, so that others wait for none, a killed process leaves whole records, and the next call
    continues with the runs that are left.

    Parameters
    ----------
    store : the history.
    keep_runs : number of newest runs to leave as they are.
    dry_run : change nothing, and return what would be freed.

    Returns
    -------
    The numbers of runs and of records that were thinned, and the bytes that this freed.

    Raises
    ------
    HistoryError : the history cannot be read or written, or a record of it is damaged.
    """
    engine, shown = store.engine, store.shown
    place_in_time = tuple_(RUNS.c.started_at, RUNS.c.id)
    newest_first = (RUNS.c.started_at.desc(), RUNS.c.id.desc())
    first_old = select(RUNS.c.started_at, RUNS.c.id).order_by(*newest_first).offset(keep_runs).limit(1)
    whole = select(RUNS.c.number, RUNS.c.id).where(~RUNS.c.thinned, place_in_time <= first_old.scalar_subquery())
    with storage_errors(shown, "read"), engine.connect() as connection:
        old = connection.execute(whole.order_by(*newest_first)).all()
    runs = records = freed_bytes = 0
    for run in old:
        with storage_errors(shown, "written"), engine.connect() if dry_run else open_transaction(engine) as connection:
            smaller, freed = _smaller(connection, run.number, run.id)
            if not dry_run:
                connection.execute(update(RUNS).where(RUNS.c.number == run.number).values(thinned=True))
            if smaller and not dry_run:
                row = (RECORDS.c.run == run.number) & (RECORDS.c.position == bindparam("at"))
                changed = update(RECORDS).where(row).values(record=bindparam("packed"))
                connection.execute(changed, [{"at": place, "packed": packed} for place, packed in smaller.items()])
        runs += bool(smaller)
        records += len(smaller)
        freed_bytes += freed
    if records and not dry_run and engine.dialect.name == "sqlite":
        # Gives the space back to the disk, as servers do by themselves.
        with storage_errors(shown, "made smaller"), outside(engine) as connection:
            connection.exec_driver_sql("VACUUM")
    return runs, records, freed_bytes


def _smaller(connection: Connection, number: int, run_id: str) -> tuple[dict[int, bytes], int]:
    """Return the thinned records of a run by position, packed, and the bytes that they free."""
    of_run = select(RECORDS.c.position, RECORDS.c.record).where(RECORDS.c.run == number).order_by(RECORDS.c.position)
    smaller: dict[int, bytes] = {}
    freed_bytes = 0
    for position, stored in connection.execute(of_run):
        record = unpack(stored, f"record {position} of run {run_id}")
        thin = thin_record(record)
        if thin != record:
            smaller[position] = pack(thin)
            freed_bytes += len(stored) - len(smaller[position])
    return smaller, freed_bytes


def thin_record(record: Record) -> Record:
    """Return `record` without the rounds of its latency; every other figure stays."""
    return replace(record, latency=_drop_rounds(record.latency))


def _drop_rounds(latency: LatencyFigures | None) -> LatencyFigures | None:
    return None if latency is None else replace(latency, round_p50_ms={}, repeat=_drop_rounds(latency.repeat))
