"""The intervals of speedup, p50 and drop in columns."""

# Annotations are evaluated at once: Alembic loads this file under no name by which msgspec could look them up.
import msgspec
from alembic import op
from sqlalchemy import (
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    select,
    update,
)

from pytest_quant.bounded import inflate
from pytest_quant.history import schema
from pytest_quant.history.rows import MOST_RECORD_BYTES

revision = "0005"
down_revision = "0004"

_RUNS_AT_ONCE = 10
_MEDIAN = 50.0
_NAMES = ("speedup_low", "speedup_high", "p50_low_ms", "p50_high_ms", "drop_low", "drop_high")

METADATA = MetaData()
SCHEMA = Table("quant_schema", METADATA, Column("version", Integer, primary_key=True))
RUNS = Table(
    "quant_runs",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("id", String),
    Column("started_at", String),
)
CHECKS = Table(
    "quant_checks",
    METADATA,
    Column("run", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),
    *(Column(name, Float) for name in _NAMES),
)
RECORDS = Table(
    "quant_records",
    METADATA,
    Column("run", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("record", LargeBinary),
)
_FILLING = update(CHECKS).where(CHECKS.c.run == bindparam("of_run"), CHECKS.c.position == bindparam("at"))

_Interval = tuple[float, float]


class _Bound(msgspec.Struct):
    percentile: float
    low_ms: float | None = None
    high_ms: float | None = None


class _Latency(msgspec.Struct):
    speedup_ci: _Interval | None = None
    percentile_bounds: tuple[_Bound, ...] = ()


class _Accuracy(msgspec.Struct):
    drop_ci: _Interval | None = None


class _Record(msgspec.Struct):
    """The parts of a record that are read; to read all of it would take five times as long."""

    accuracy: _Accuracy | None = None
    latency: _Latency | None = None


def upgrade() -> None:
    """Add the columns, and fill them for the newest checks; a damaged record leaves them empty."""
    connection = op.get_bind()
    for name in _NAMES:
        op.add_column("quant_checks", Column(name, Float))
    _fill(connection)
    connection.execute(update(SCHEMA).values(version=5))


def _fill(connection: Connection) -> None:
    newest_first = select(RUNS.c.number).order_by(RUNS.c.started_at.desc(), RUNS.c.id.desc())
    runs = list(connection.execute(newest_first).scalars())
    left = schema.OLDER_WITH_INTERVALS
    for start in range(0, len(runs), _RUNS_AT_ONCE):
        wanted = select(RECORDS).where(RECORDS.c.run.in_(runs[start : start + _RUNS_AT_ONCE]))
        rows = connection.execute(wanted).all()
        read = ((run, position, _intervals(kept)) for run, position, kept in rows)
        found = [{"of_run": run, "at": position, **intervals} for run, position, intervals in read if intervals]
        if found:
            connection.execute(_FILLING, found)
        left -= len(rows)
        if left <= 0:
            return


def _intervals(kept: bytes) -> dict[str, float | None]:
    """Return the intervals in a stored record by their columns; nothing when it is damaged, or has none."""
    try:
        record = msgspec.json.decode(inflate(kept, MOST_RECORD_BYTES), type=_Record)
    except ValueError:
        return {}
    nothing: tuple[float | None, float | None] = (None, None)
    speedup, p50 = nothing, nothing
    if latency := record.latency:
        speedup = latency.speedup_ci or nothing
        medians = ((one.low_ms, one.high_ms) for one in latency.percentile_bounds if one.percentile == _MEDIAN)
        p50 = next(medians, nothing)
    drop = (record.accuracy.drop_ci if record.accuracy else None) or nothing
    found = dict(zip(_NAMES, (*speedup, *p50, *drop), strict=True))
    return found if any(value is not None for value in found.values()) else {}
