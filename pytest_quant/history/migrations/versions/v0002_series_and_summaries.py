"""Each series once, the summary of a check in columns, and records compressed in a table of their own."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any

from alembic import op
from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    String,
    Table,
    Text,
    insert,
    select,
    update,
)

from pytest_quant.errors import HistoryError
from pytest_quant.history.rows import check_row, decode_run, digest_of, in_utc, run_row, searchable, series_row
from pytest_quant.record import Record, Run, from_json

revision = "0002"
down_revision = "0001"

_AT_ONCE = 500

METADATA = MetaData()

# By bytes, as SQLite sorts: a server would sort by the rules of its locale.
_SORTED = String().with_variant(Text(collation="C"), "postgresql")

SCHEMA = Table("quant_schema", METADATA, Column("version", Integer, primary_key=True))

RUNS = Table(
    "quant_runs",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("id", _SORTED, nullable=False, unique=True),
    Column("started_at", _SORTED, nullable=False, index=True),
    Column("commit", String, index=True),
    Column("branch", String, index=True),
    Column("dirty", Boolean, nullable=False),
    Column("run", Text, nullable=False),
)

SERIES = Table(
    "quant_series",
    METADATA,
    Column("number", Integer, primary_key=True),
    # PostgreSQL indexes texts of up to 2700 bytes only, and a node id may be longer.
    Column("digest", String(64), nullable=False, unique=True),
    Column("key", Text, nullable=False),
    Column("nodeid", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("engine_id", Text, nullable=False),
    Column("metric", Text),
)

CHECKS = Table(
    "quant_checks",
    METADATA,
    Column("run", Integer, ForeignKey("quant_runs.number", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("series", Integer, ForeignKey("quant_series.number"), nullable=False),
    Column("started_at", _SORTED, nullable=False),
    Column("version", String, nullable=False),
    Column("identity", String, nullable=False),
    Column("isa", String, nullable=False),
    Column("status", String, nullable=False),
    Column("metric", String),
    Column("unit", String),
    Column("better", String),
    Column("n", Integer),
    Column("reference", Float),
    Column("candidate", Float),
    Column("drop", Float),
    Column("agreement_pct", Float),
    Column("speedup", Float),
    Column("reference_p50_ms", Float),
    Column("candidate_p50_ms", Float),
    Column("coverage_pct", Float),
    Column("size_mb", Float),
    Index("quant_checks_by_series", "series", "started_at"),
)

RECORDS = Table(
    "quant_records",
    METADATA,
    Column("run", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("record", LargeBinary, nullable=False),
    ForeignKeyConstraint(
        ["run", "position"],
        ["quant_checks.run", "quant_checks.position"],
        name="quant_records_check",
        ondelete="CASCADE",
    ),
)

_OLD = MetaData()
_OLD_RUNS = Table(
    "quant_old_runs", _OLD, Column("id"), Column("started_at"), Column("commit"), Column("branch"), Column("run")
)
_OLD_CHECKS = Table(
    "quant_old_checks",
    _OLD,
    Column("id"),
    Column("run_id"),
    Column("position"),
    Column("series"),
    Column("status"),
    Column("record"),
)


def upgrade() -> None:
    """Move every run and record; damaged ones are moved unchanged, and reported when they are read."""
    connection = op.get_bind()
    op.drop_index("ix_quant_runs_started_at", "quant_runs")
    op.drop_index("quant_checks_by_series", "quant_checks")
    for name in ("runs", "checks", "accepted"):
        op.rename_table(f"quant_{name}", f"quant_old_{name}")
    METADATA.create_all(connection)
    _move_runs(connection)
    _move_checks(connection)
    # The table of accepted records was never used: they are in a file under version control.
    for name in ("accepted", "checks", "runs"):
        op.drop_table(f"quant_old_{name}")
    connection.execute(update(SCHEMA).values(version=2))


def _pages(connection: Connection, table: Table) -> Iterator[list[Row[*tuple[Any, ...]]]]:
    """Read a table by its key, so that neither memory nor an open cursor grows with it."""
    asked = select(table).order_by(table.c.id).limit(_AT_ONCE)
    page = list(connection.execute(asked))
    while page:
        yield page
        page = list(connection.execute(asked.where(table.c.id > page[-1].id)))


def _move_runs(connection: Connection) -> None:
    for page in _pages(connection, _OLD_RUNS):
        connection.execute(insert(RUNS), [_new_run(old) for old in page])


def _new_run(old: Row[*tuple[Any, ...]]) -> dict[str, object]:
    kept = {"id": old.id, "run": old.run}
    try:
        row = run_row(decode_run(old.run)) | kept
        return {name: value for name, value in row.items() if name in RUNS.c}
    except HistoryError:
        # Marked as dirty, because its state is unknown, so that it is never compared.
        columns = {"started_at": in_utc(old.started_at), "commit": old.commit, "branch": old.branch, "dirty": True}
        return columns | kept


def _move_checks(connection: Connection) -> None:
    runs = {row.id: row for row in connection.execute(select(RUNS.c.id, RUNS.c.number, RUNS.c.started_at, RUNS.c.run))}
    series: dict[str, int] = {}
    for page in _pages(connection, _OLD_CHECKS):
        checks: list[dict[str, object]] = []
        for old in page:
            run = runs[old.run_id]
            record = _read(run.run, old.record)
            key = searchable(old.series)
            if key not in series:
                series[key] = _new_series(connection, key, record)
            place = {"run": run.number, "position": old.position}
            columns = place | {"series": series[key], "started_at": run.started_at}
            checks.append(columns | _summary(old.status, record))
        connection.execute(insert(CHECKS), checks)
        connection.execute(
            insert(RECORDS),
            [
                {"run": runs[old.run_id].number, "position": old.position, "record": zlib.compress(old.record.encode())}
                for old in page
            ],
        )


def _read(run_text: str, text: str) -> tuple[Run, Record] | None:
    try:
        return decode_run(run_text), from_json(json.loads(text))
    except (HistoryError, ValueError):
        return None


def _new_series(connection: Connection, key: str, read: tuple[Run, Record] | None) -> int:
    described: dict[str, object] = {"nodeid": key, "model": "", "engine_id": "", "metric": None}
    if read is not None:
        described |= series_row(read[1])
    row = described | {"digest": digest_of(key), "key": key}
    return int(connection.execute(insert(SERIES).values(row).returning(SERIES.c.number)).scalar_one())


def _summary(status: str, read: tuple[Run, Record] | None) -> dict[str, object]:
    nothing = dict.fromkeys(column.name for column in CHECKS.c if column.nullable)
    unknown = nothing | {"version": "", "identity": "", "isa": "unknown", "status": status}
    if read is None:
        return unknown
    # Later versions of the tables have more columns.
    return unknown | {name: value for name, value in check_row(*read).items() if name in CHECKS.c}
