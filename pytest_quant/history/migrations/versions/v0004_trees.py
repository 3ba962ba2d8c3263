"""The tree of each run, so that the records of equal content are found under any commit."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Integer, MetaData, String, Table, update

revision = "0004"
down_revision = "0003"

METADATA = MetaData()
SCHEMA = Table("quant_schema", METADATA, Column("version", Integer, primary_key=True))


def upgrade() -> None:
    """Add an empty column: older runs did not keep their tree."""
    op.add_column("quant_runs", Column("tree", String))
    op.create_index("ix_quant_runs_tree", "quant_runs", ["tree"])
    op.get_bind().execute(update(SCHEMA).values(version=4))
