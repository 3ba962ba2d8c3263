"""The columns of the table: what each is called and what it shows of a record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_quant.errors import UsageError, nearest
from pytest_quant.printable import clean
from pytest_quant.record import LatencyFigures, Record
from pytest_quant.report.text import NOT_MEASURED, decimals, fixed, shorten
from pytest_quant.result import AccuracyResult, Interval, Resources, Status

_MAX_NAME = 32
EXPECTED = "XFAIL"
"""The word for a check that failed as its test said it would."""

Figures = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check as the table names it: its record, the short id of its test, and its status or ``XFAIL``."""

    record: Record
    test: str
    status: str


def rows_of(records: Sequence[Record], expected: Collection[str] = ()) -> list[CheckRow]:
    """Return one row for each record; `expected` are the node ids of tests that failed as they were expected to."""
    names = _short_ids([record.nodeid for record in records])
    return [CheckRow(record, clean(names[record.nodeid]), word(record, expected)) for record in records]


def word(record: Record, expected: Collection[str]) -> str:
    """Return the status of `record`; ``XFAIL`` for a failure or error that its test expects."""
    failed = record.status in (Status.FAIL, Status.ERROR)
    return EXPECTED if failed and record.nodeid in expected else record.status.value


def _short_ids(nodeids: Sequence[str]) -> dict[str, str]:
    """Return the end of each id, from a folder, file or class on, that no other id ends with."""
    ends = {nodeid: _ends(nodeid) for nodeid in nodeids}
    number = Counter(end for of_id in ends.values() for end in of_id)
    return {nodeid: next((end for end in of_id if number[end] == 1), nodeid) for nodeid, of_id in ends.items()}


def _ends(nodeid: str) -> list[str]:
    """Return what an id may be called, the shortest first; parameters are never taken apart."""
    path = nodeid.partition("[")[0]
    starts = [0, *(separator.end() for separator in re.finditer("::|/", path))]
    return [nodeid[start:] for start in reversed(starts)]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of text, the same for every table."""

    name: str
    head: str
    cell: Callable[[CheckRow], str]
    number: bool = False

    def cells(self, rows: Sequence[CheckRow], *, aligned: bool = True) -> tuple[str, list[str]]:  # noqa: ARG002
        """Return the head and one cell for each row, which is as it is whether it is to be `aligned` or not."""
        return self.head, [self.cell(row) for row in rows]

    def sort_value(self, row: CheckRow) -> float | None:
        """Return the number that a row is sorted by; ``None`` for a text, and where nothing was measured."""
        text = self.cell(row)
        return int(text) if self.number and text != NOT_MEASURED else None


@dataclass(frozen=True, slots=True)
class FigureColumn:
    """One column of figures, all with the same number of decimals; the unit is in the head.

    Where the rows have figures of several kinds the digits are those of each kind, and the cells have the units.

    Attributes
    ----------
    read : the figures of a cell; empty where nothing was measured.
    unit : of the figures of a record.
    form : how they stand in it, one ``{}`` for each.
    like : the figures that decide the decimals, where they are not those of the cell.
    remark : what stands after the figures; a cell of that alone has no figures.
    full : the whole of a share, see `decimals`; percentages have theirs by their unit.
    label : what the figures of a record are called, in place of the head; empty where all rows have the same.
    """

    name: str
    head: str
    read: Callable[[Record], Figures]
    unit: Callable[[Record], str]
    form: str = "{}"
    like: Callable[[Record], Figures] | None = None
    remark: Callable[[Record], str] = lambda _: ""
    full: float | None = None
    label: Callable[[Record], str] = lambda _: ""

    def cells(self, rows: Sequence[CheckRow], *, aligned: bool = True) -> tuple[str, list[str]]:
        """Return the head and one cell for each row; where `aligned`, with spaces that put digits below each other."""
        records = [row.record for row in rows]
        kinds = [self._kind(record) for record in records]
        several = list(dict.fromkeys(kind for kind in kinds if kind is not None))
        texts = [NOT_MEASURED] * len(rows)
        for label, unit in several:
            places = [place for place, kind in enumerate(kinds) if kind == (label, unit)]
            after = f" {unit}" if unit and len(several) > 1 else ""
            of_kind = self._of_kind([records[place] for place in places], unit, after, aligned)
            for place, text in zip(places, of_kind, strict=True):
                texts[place] = f"{label} {text}".strip() if len(several) > 1 else text
        label, unit = several[0] if len(several) == 1 else ("", "")
        size = max(map(len, texts), default=0) if aligned else 0
        pad = str.ljust if any(label for label, _ in several[1:]) else str.rjust
        return f"{label or self.head} {unit}".rstrip(), [pad(text, size) for text in texts]

    def sort_value(self, row: CheckRow) -> float | None:
        """Return the number that a row is sorted by: the last one of its cell, that of two which is the candidate's."""
        return next((value for value in reversed(self.read(row.record)) if value is not None), None)

    def _kind(self, record: Record) -> tuple[str, str] | None:
        """Return what the figures of a record are called, and their unit; ``None`` where the cell is empty."""
        empty = all(value is None for value in self.read(record)) and not self.remark(record)
        return None if empty else (self.label(record), self.unit(record))

    def _of_kind(self, records: Sequence[Record], unit: str, after: str, aligned: bool) -> Iterator[str]:
        """Yield the cells of records with figures of one kind, with `after` behind the figures."""
        deciding = [value for record in records for value in (self.like or self.read)(record) if value is not None]
        digits = decimals(deciding, full=100.0 if unit in ("%", "pp") else self.full)
        cells = [
            [fixed(value, digits) for value in figures] if any(value is not None for value in figures) else []
            for figures in map(self.read, records)
        ]
        sizes = [max((len(cell[i]) for cell in cells if aligned and i < len(cell)), default=0) for i in range(2)]
        remarks = [self.remark(record) for record in records]
        longest = max((len(remark) for remark, cell in zip(remarks, cells, strict=True) if aligned and cell), default=0)
        for cell, remark in zip(cells, remarks, strict=True):
            padded = [text.rjust(size) for text, size in zip(cell, sizes, strict=False)]
            text = self.form.format(*padded) if len(padded) == self.form.count("{}") else " ".join(padded)
            yield f"{text}{after}{remark:<{longest}}" if text else remark.strip()


def _score_label(record: Record) -> str:
    accuracy = record.accuracy
    return "SQNR" if accuracy is None or accuracy.metric is None else _name(accuracy.metric)


def _score_unit(record: Record) -> str:
    accuracy = record.accuracy
    return "dB" if accuracy is None or accuracy.metric is None else clean(accuracy.unit or "")


def _score(record: Record) -> Figures:
    accuracy = record.accuracy
    if accuracy is None:
        return ()
    return (accuracy.sqnr_db,) if accuracy.metric is None else (accuracy.reference, accuracy.candidate)


def _score_remark(record: Record) -> str:
    accuracy = record.accuracy
    if accuracy is None:
        return ""
    remarks = ["identical"] if accuracy.metric is None and accuracy.identical else []
    remarks += ["simulated"] if accuracy.simulated else []
    lead = " " if any(value is not None for value in _score(record)) else ""
    return lead + " ".join(remarks) if remarks else ""


def _name(text: str | None) -> str:
    return shorten(clean(text), _MAX_NAME) if text else NOT_MEASURED


def _drop(record: Record) -> Figures:
    return (record.accuracy.drop,) if record.accuracy else ()


def _drop_unit(record: Record) -> str:
    unit = record.accuracy.unit if record.accuracy else None
    return "pp" if unit == "%" else clean(unit or "")


def _drop_interval(record: Record) -> Figures:
    return _ends_of(record.accuracy.drop_ci if record.accuracy else None)


def _ends_of(span: Interval | None) -> Figures:
    return () if span is None else (span.low, span.high)


def _sqnr_remark(record: Record) -> str:
    accuracy = record.accuracy
    return "identical" if accuracy is not None and accuracy.identical and accuracy.sqnr_db is None else ""


def _speedup(record: Record) -> Figures:
    return (record.latency.speedup,) if record.latency else ()


def _doubt(record: Record) -> str:
    return " ?" if record.latency is not None and record.latency.reasons else ""


def _cache(row: CheckRow) -> str:
    cache = row.record.cache
    return (
        NOT_MEASURED if cache is None else "/".join(cache.get(what, NOT_MEASURED) for what in ("engine", "reference"))
    )


def _accuracy(
    name: str,
    head: str,
    read: Callable[[AccuracyResult], float | None],
    unit: str = "",
    *,
    remark: Callable[[Record], str] = lambda _: "",
    full: float | None = None,
) -> FigureColumn:
    def figures(record: Record) -> Figures:
        return (read(record.accuracy),) if record.accuracy else ()

    return FigureColumn(name, head, figures, lambda _: unit, remark=remark, full=full)


def _latency(
    name: str, head: str, read: Callable[[LatencyFigures], Figures], unit: str, form: str = "{}"
) -> FigureColumn:
    return FigureColumn(name, head, lambda r: read(r.latency) if r.latency else (), lambda _: unit, form)


def _resources(name: str, head: str, read: Callable[[Resources], float | None], unit: str) -> FigureColumn:
    return FigureColumn(name, head, lambda r: (read(r.resources),) if r.resources else (), lambda _: unit)


def _coverage(record: Record) -> Figures:
    coverage = record.coverage
    if coverage is None:
        return ()
    return (coverage.pct,) if coverage.high_pct is None else (coverage.pct, coverage.high_pct)


AnyColumn = Column | FigureColumn

COLUMNS: tuple[AnyColumn, ...] = (
    Column("test", "test", lambda row: row.test),
    Column("model", "model", lambda row: _name(row.record.model)),
    Column("backend", "backend", lambda row: _name(row.record.backend)),
    Column("precision", "precision", lambda row: _name(row.record.precision)),
    Column("scheme", "scheme", lambda row: _name(row.record.scheme)),
    Column("batch", "batch", lambda row: str(row.record.batch_size), number=True),
    # The SQNR where there is no metric, which tells as much as can be told.
    FigureColumn("metric", "metric", _score, _score_unit, "{} -> {}", remark=_score_remark, label=_score_label),
    Column("n", "n", lambda row: str(row.record.accuracy.n) if row.record.accuracy else NOT_MEASURED, number=True),
    FigureColumn("drop", "drop", _drop, _drop_unit),
    FigureColumn("drop_ci", "interval", _drop_interval, _drop_unit, "[{}, {}]", like=_drop),
    _accuracy("agreement", "agree", lambda accuracy: accuracy.agreement_pct, "%"),
    _accuracy("sqnr", "SQNR", lambda accuracy: accuracy.sqnr_db, "dB", remark=_sqnr_remark),
    _accuracy("cosine", "cosine", lambda accuracy: accuracy.cosine, full=1.0),
    _accuracy("max_abs_error", "max error", lambda accuracy: accuracy.max_abs_error),
    _accuracy("kl", "KL", lambda accuracy: accuracy.kl, "nats"),
    _latency("p50", "p50", lambda times: (times.reference_p50_ms, times.candidate_p50_ms), "ms", "{} -> {}"),
    _latency("p90", "p90", lambda times: (times.candidate_p90_ms,), "ms"),
    _latency("p99", "p99", lambda times: (times.candidate_p99_ms,), "ms"),
    FigureColumn("speedup", "speedup", _speedup, lambda _: "x", remark=_doubt),
    FigureColumn(
        "speedup_ci",
        "interval",
        lambda record: _ends_of(record.latency.speedup_ci if record.latency else None),
        lambda _: "x",
        "[{}, {}]",
        like=_speedup,
    ),
    FigureColumn("coverage", "coverage", _coverage, lambda _: "%", "{} to {}"),
    _resources("size", "size", lambda resources: resources.size_mb, "MB"),
    _resources("memory", "memory", lambda resources: resources.peak_memory_mb, "MB"),
    _resources("build", "build", lambda resources: resources.build_s, "s"),
    Column("cache", "engine/reference", _cache),
    Column("status", "status", lambda row: row.status),
)

WHICH = ("test", "model", "backend", "precision", "scheme", "batch")
"""The columns that say which check a row is."""

_FIGURES = ("metric", "drop", "drop_ci", "agreement", "p50", "speedup", "speedup_ci", "coverage", "size")

DEFAULT = ("test", *_FIGURES, "status")
"""The columns that are shown unless others are asked for or no row fills one, beside those of `WHICH` that differ."""

REASON = "reason"
"""The column for why checks never came to be, where no figures leave room for it."""

STAY_LONGEST = (
    "test", "status", REASON, "drop", "speedup", "metric", "coverage", "p50", "size", "batch", "scheme", "precision",
    "backend", "model", "agreement", "drop_ci", "speedup_ci",
)  # fmt: skip
"""The columns of `DEFAULT` and `WHICH`, and that one, in the order in which a narrow terminal has room for them."""


def pick_columns(names: Sequence[str]) -> tuple[AnyColumn, ...]:
    """Return the columns called `names`, in that order. Raises `UsageError` for one that does not exist."""
    by_name = {column.name: column for column in COLUMNS}
    for name in names:
        if name not in by_name:
            raise UsageError(
                f"--quant-columns: there is no column '{clean(name)}'",
                allowed=nearest(name, by_name),
                fix=f"write --quant-columns={','.join(DEFAULT)}",
            )
    return tuple(by_name[name] for name in names)


def default_columns(rows: Sequence[CheckRow]) -> tuple[str, ...]:
    """Return the test first, then what differs between `rows`, then the figures that a row has, and the status."""
    cells = {column.name: [cell.strip() for cell in column.cells(rows)[1]] for column in COLUMNS}
    differ = [name for name in WHICH[1:] if any(first != second for first, second in pairwise(cells[name]))]
    filled = [name for name in _FIGURES if any(cell != NOT_MEASURED for cell in cells[name])]
    return (DEFAULT[0], *differ, *filled, DEFAULT[-1])
