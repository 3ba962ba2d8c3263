"""The tables of a history.

Runs and records are stored as whole documents; the other columns are searched and listed without decoding them.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    false,
)

VERSION = 9
"""Of the tables; one more with each change of them. A history of another version is refused, see `connect`."""

METADATA = MetaData()

# By bytes, as SQLite sorts: a server would sort by the rules of its locale.
_SORTED = String().with_variant(Text(collation="C"), "postgresql")

SCHEMA = Table("quant_schema", METADATA, Column("version", Integer, primary_key=True))
"""Read by every version of this package before any other table."""

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
    Column("tree", String, index=True),
    Column("repository", String, nullable=False, index=True),
    Column("thinned", Boolean, nullable=False, server_default=false()),
)
"""`started_at` is converted to UTC, so that its order is that of time. A run that is `thinned` is pruned no more."""

SERIES = Table(
    "quant_series",
    METADATA,
    Column("number", Integer, primary_key=True),
    # PostgreSQL indexes texts of up to 2700 bytes only, and a node id may be longer.
    Column("digest", String(64), nullable=False, unique=True),
    Column("key", Text, nullable=False),
)

CHECKS = Table(
    "quant_checks",
    METADATA,
    Column("run", Integer, ForeignKey("quant_runs.number", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("series", Integer, ForeignKey("quant_series.number"), nullable=False),
    Column("started_at", _SORTED, nullable=False),
    Column("status", String, nullable=False),
    Column("figures", Text, nullable=False),
    Index("quant_checks_by_series", "series", "started_at"),
)
"""The summary of each check, see `CheckSummary`, whose figures are one text of JSON, so that a new one needs no column.

`started_at` is that of its run, so that one index finds a series in its order.
"""

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
"""A table of its own, so that the summaries of a series are stored close together."""

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
"""What machines of one identity were found to hold. It is about machines and not about commits: a history that is
exported, imported, pushed or pulled leaves it where it was measured, and pruning keeps it."""
