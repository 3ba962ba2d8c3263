"""Runs and records, each whole as JSON."""

from __future__ import annotations

from alembic import op
from sqlalchemy import (
    Column,
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
    select,
)

revision = "0001"
down_revision = None

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


def upgrade() -> None:
    """Create what is not there: files of this version were written before Alembic kept count, some of them in part."""
    connection = op.get_bind()
    METADATA.create_all(connection)
    if connection.execute(select(func.count()).select_from(SCHEMA)).scalar() == 0:
        connection.execute(insert(SCHEMA).values(version=1))
