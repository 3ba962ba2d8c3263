"""Self-tests of runners."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Index, Integer, MetaData, String, Table, Text, update

revision = "0003"
down_revision = "0002"

METADATA = MetaData()

# By bytes, as SQLite sorts: a server would sort by the rules of its locale.
_SORTED = String().with_variant(Text(collation="C"), "postgresql")

SCHEMA = Table("quant_schema", METADATA, Column("version", Integer, primary_key=True))

SELFTESTS = Table(
    "quant_selftests",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("machine", String(64), nullable=False),
    Column("device", String, nullable=False),
    Column("measured_at", _SORTED, nullable=False),
    Column("document", Text, nullable=False),
    Index("quant_selftests_by_machine", "machine", "device", "measured_at"),
)


def upgrade() -> None:
    """Add an empty table."""
    connection = op.get_bind()
    SELFTESTS.create(connection)
    connection.execute(update(SCHEMA).values(version=3))
