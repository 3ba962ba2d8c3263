"""The columns of the table: what each is called and what it shows of a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_quant.errors import UsageError, nearest
from pytest_quant.record import LatencyFigures, Record
from pytest_quant.report.text import NOT_MEASURED, clean, figure, in_unit, interval, points, shorten
from pytest_quant.result import AccuracyResult, Resources

_MAX_NAME = 32


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `number` aligns it to the right, `shortens` lets a narrow terminal leave its middle out."""

    name: str
    header: str
    cell: Callable[[Record], str]
    number: bool = False
    shortens: bool = False


def pick_columns(names: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns called `names`, in that order. Raises `UsageError` for one that does not exist."""
    known = {column.name: column for column in COLUMNS}
    for name in names:
        if name not in known:
            raise UsageError(
                f"--quant-columns: there is no column '{clean(name)}'",
                allowed=nearest(name, known),
                fix=f"write --quant-columns={','.join(DEFAULT)}",
            )
    return tuple(known[name] for name in names)


def _name(text: str | None) -> str:
    return shorten(clean(text), _MAX_NAME) if text else NOT_MEASURED


def _metric(record: Record) -> str:
    """Scores of both, or the SQNR where there is no metric, which tells as much as can be told without labels."""
    found = record.accuracy
    if found is None:
        return NOT_MEASURED
    simulated = " simulated" if found.simulated else ""
    if found.metric is None:
        return ("outputs identical" if found.identical else f"SQNR {figure(found.sqnr_db)} dB") + simulated
    scores = f"{in_unit(found.reference, found.unit)} -> {in_unit(found.candidate, found.unit)}"
    unit = f" {clean(found.unit)}" if found.unit else ""
    return f"{_name(found.metric)} {scores}{unit}{simulated}"


def _drop(record: Record) -> str:
    found = record.accuracy
    if found is None or found.drop is None:
        return NOT_MEASURED
    return f"{in_unit(found.drop, found.unit)} {interval(found.drop_ci, found.unit)}".rstrip()


def _agreement(record: Record) -> str:
    return points(record.accuracy.agreement_pct if record.accuracy else None)


def _sqnr(record: Record) -> str:
    if record.accuracy is not None and record.accuracy.identical:
        return "identical"
    return figure(record.accuracy.sqnr_db if record.accuracy else None)


def _p50(record: Record) -> str:
    found = record.latency
    if found is None:
        return NOT_MEASURED
    return f"{figure(found.reference_p50_ms)} -> {figure(found.candidate_p50_ms)}"


def _speedup(record: Record) -> str:
    found = record.latency
    if found is None or found.speedup is None:
        return NOT_MEASURED
    doubt = " ?" if found.reasons else ""
    return f"x{figure(found.speedup)} {interval(found.speedup_ci)}".rstrip() + doubt


def _cache(record: Record) -> str:
    if record.cache is None:
        return NOT_MEASURED
    return f"{record.cache.get('engine', NOT_MEASURED)}/{record.cache.get('reference', NOT_MEASURED)}"


def _of_accuracy(read: Callable[[AccuracyResult], float | None], digits: int = 4) -> Callable[[Record], str]:
    return lambda record: figure(read(record.accuracy) if record.accuracy else None, digits)


def _of_latency(read: Callable[[LatencyFigures], float | None]) -> Callable[[Record], str]:
    return lambda record: figure(read(record.latency) if record.latency else None)


def _of_resources(read: Callable[[Resources], float | None]) -> Callable[[Record], str]:
    return lambda record: figure(read(record.resources) if record.resources else None)


def _coverage(record: Record) -> str:
    return points(record.coverage.pct if record.coverage else None)


COLUMNS = (
    Column("test", "test", lambda record: clean(record.nodeid), shortens=True),
    Column("model", "model", lambda record: _name(record.model)),
    Column("backend", "backend", lambda record: _name(record.backend)),
    Column("precision", "precision", lambda record: _name(record.precision)),
    Column("scheme", "scheme", lambda record: _name(record.scheme)),
    Column("batch", "batch", lambda record: str(record.batch_size), number=True),
    Column("metric", "metric FP32 -> candidate", _metric),
    Column("n", "n", lambda record: str(record.accuracy.n) if record.accuracy else NOT_MEASURED, number=True),
    Column("drop", "drop [interval]", _drop),
    Column("agreement", "agreement %", _agreement, number=True),
    Column("sqnr", "SQNR dB", _sqnr, number=True),
    Column("cosine", "cosine", _of_accuracy(lambda found: found.cosine, 6), number=True),
    Column("max_abs_error", "max error", _of_accuracy(lambda found: found.max_abs_error), number=True),
    Column("kl", "KL nats", _of_accuracy(lambda found: found.kl), number=True),
    Column("p50", "p50 ms FP32 -> candidate", _p50),
    Column("p90", "p90 ms", _of_latency(lambda found: found.candidate_p90_ms), number=True),
    Column("p99", "p99 ms", _of_latency(lambda found: found.candidate_p99_ms), number=True),
    Column("speedup", "speedup [interval]", _speedup),
    Column("coverage", "coverage %", _coverage, number=True),
    Column("size", "size MB", _of_resources(lambda found: found.size_mb), number=True),
    Column("memory", "memory MB", _of_resources(lambda found: found.peak_memory_mb), number=True),
    Column("build", "build s", _of_resources(lambda found: found.build_s), number=True),
    Column("cache", "engine/reference", _cache),
    Column("status", "status", lambda record: record.status.value),
)

DEFAULT = (
    "model", "backend", "precision", "scheme", "metric", "drop", "agreement", "p50", "speedup", "coverage", "size",
    "status",
)  # fmt: skip

_ENGINE = 4
"""So many of the default columns say which engine it is."""


def default_columns(records: Sequence[Record], *, folded: bool) -> tuple[str, ...]:
    """Return the columns that are shown unless others are asked for.

    The batch size is one of them where it differs between `records`. Where the columns are `folded` onto several
    lines, the status stays on the first.
    """
    batch = ("batch",) if len({record.batch_size for record in records}) > 1 else ()
    engine, figures, status = DEFAULT[:_ENGINE], DEFAULT[_ENGINE:-1], DEFAULT[-1:]
    return (*engine, *batch, *status, *figures) if folded else (*engine, *batch, *figures, *status)
