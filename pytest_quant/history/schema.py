"""The tables of a history, and their version.

=======  =====================================
version  what changed
=======  =====================================
1        first version
=======  =====================================

Runs and records are kept whole, as JSON; the columns beside them are what is searched for.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
    insert,
    inspect,
    select,
)

from pytest_quant.errors import HistoryError

VERSION = 1

METADATA = MetaData()

SCHEMA = Table("quant_schema", METADATA, Column("version", Integer, primary_key=True))

RUNS = Table(
    "quant_runs",
    METADATA,
    Column("id", String, primary_key=True),
    Column("started_at", String, nullable=False, index=True),
    Column("commit", String),
    Column("branch", String),
    Column("run", Text, nullable=False),
)

CHECKS = Table(
    "quant_checks",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("run_id", String, ForeignKey("quant_runs.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("series", String, nullable=False),
    Column("status", String, nullable=False),
    Column("record", Text, nullable=False),
    UniqueConstraint("run_id", "position"),
    Index("quant_checks_by_series", "series"),
)

ACCEPTED = Table(
    "quant_accepted",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("check_id", Integer, ForeignKey("quant_checks.id", ondelete="CASCADE"), nullable=False),
)
"""Records that were made a baseline, in the order in which that happened."""


def stored_version(engine: Engine) -> int | None:
    """Return the version of the tables; ``None`` when they are not all there yet."""
    if not inspect(engine).has_table(SCHEMA.name):
        return None
    with engine.connect() as connection:
        return connection.execute(select(func.max(SCHEMA.c.version))).scalar()


def create_tables(connection: Connection) -> None:
    """Create what is not there yet; the version comes last, so that a killed process leaves nothing half done."""
    METADATA.create_all(connection)
    connection.execute(insert(SCHEMA).values(version=VERSION))


def refuse_newer(version: int, place: str) -> None:
    """Raise `HistoryError` when the tables are of a later version than this package knows."""
    if version > VERSION:
        raise HistoryError(
            f"the history {place} was written by a newer pytest-quant",
            value=f"version {version} of its tables",
            allowed=f"version {VERSION} or older",
            fix="pip install --upgrade pytest-quant, or name another file with --quant-history FILE",
        )
