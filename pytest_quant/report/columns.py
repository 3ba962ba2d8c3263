"""The columns of the table: what each is called and what it shows of a record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_quant.errors import UsageError, nearest
from pytest_quant.printable import clean
from pytest_quant.record import Record
from pytest_quant.report.text import NOT_MEASURED, decimals, fixed, shorten
from pytest_quant.result import Status

_MAX_NAME = 32
EXPECTED = "XFAIL"
"""The word for a check that failed as its test said it would."""

TEST_FAILED = "TEST FAILED"
"""The word for a check that passed in a test that failed for another reason."""

Figures = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check as the table names it: its record, the short id of its test, and its `word`."""

    record: Record
    test: str
    status: str


def rows_of(records: Sequence[Record], expected: Collection[str] = (), broken: Collection[str] = ()) -> list[CheckRow]:
    """Return one row for each record, see `word`."""
    names = _short_ids([record.nodeid for record in records])
    return [CheckRow(record, clean(names[record.nodeid]), word(record, expected, broken)) for record in records]


def word(record: Record, expected: Collection[str], broken: Collection[str] = ()) -> str:
    """Return the status of `record`, or the word for a test that ended otherwise than its check.

    Parameters
    ----------
    expected : node ids of tests that failed as they were expected to; they are XFAIL.
    broken : node ids of tests that failed and should not have.
    """
    failed = record.status in (Status.FAIL, Status.ERROR)
    if record.status is Status.PASS and record.nodeid in broken:
        return TEST_FAILED
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
    """One column of the table.

    Attributes
    ----------
    read : what a cell shows of a row: a text, a whole number, or figures, none where nothing was measured.
    unit : of the figures of a record.
    form : how the figures of a cell stand in it, one ``{}`` for each.
    remark : what stands behind the figures of a record, or in place of them.
    full : the whole of a share, see `decimals`; percentages have theirs by their unit.
    label : what the figures of a record are called, in place of the head; empty where all records have the same.
    """

    name: str
    head: str
    read: Callable[[CheckRow], str | int | Figures]
    unit: Callable[[Record], str] = lambda _: ""
    form: str = "{}"
    remark: Callable[[Record], str] = lambda _: ""
    full: float | None = None
    label: Callable[[Record], str] = lambda _: ""

    def cells(self, rows: Sequence[CheckRow]) -> tuple[str, list[str], bool]:
        """Return the head, one cell for each row, and whether they end below each other, as figures do.

        All figures have the same number of decimals, and the unit is in the head. Where rows have figures of several
        kinds the decimals are those of each kind, and the cells have the units.
        """
        values = [self.read(row) for row in rows]
        if any(isinstance(value, (str, int)) for value in values):
            texts = [str(value) if isinstance(value, (str, int)) else NOT_MEASURED for value in values]
            return self.head, texts, any(isinstance(value, int) for value in values)
        figures = [value if isinstance(value, tuple) else () for value in values]
        remarks = [self.remark(row.record) for row in rows]
        kinds = [(self.label(row.record), self.unit(row.record)) for row in rows]
        measured = [place for place in range(len(rows)) if figures[place] or remarks[place]]
        several = list(dict.fromkeys(kinds[place] for place in measured))
        digits = {
            kind: decimals(
                (value for place in measured if kinds[place] == kind for value in figures[place]),
                full=100.0 if kind[1] in ("%", "pp") else self.full,
            )
            for kind in several
        }
        is_right = len(several) < 2 or not any(label for label, _ in several)
        longest = max((len(remarks[place]) for place in measured if figures[place] and is_right), default=0)
        texts = [NOT_MEASURED] * len(rows)
        for place in measured:
            label, unit = kinds[place]
            numbers = [fixed(value, digits[label, unit]) for value in figures[place]]
            text = self.form.format(*numbers) if len(numbers) == self.form.count("{}") else " ".join(numbers)
            parts = [text] if len(several) == 1 else [label, text, unit if numbers else ""]
            # Blanks in place of a remark keep the digits below each other.
            parts.append(remarks[place].ljust(longest if numbers else 0))
            texts[place] = " ".join(filter(None, parts))
        label, unit = several[0] if len(several) == 1 else ("", "")
        return f"{label or self.head} {unit}".rstrip(), texts, is_right

    def sort_value(self, row: CheckRow) -> float | None:
        """Return the number that a row is sorted by, the last one of its cell; ``None`` for a text and for nothing."""
        value = self.read(row)
        if isinstance(value, tuple):
            return value[-1] if value else None
        return value if isinstance(value, int) else None


def _name(text: str | None) -> str:
    return shorten(clean(text), _MAX_NAME) if text else NOT_MEASURED


def _of(section: str, *names: str) -> Callable[[CheckRow], Figures]:
    """Return what reads figures of a section of a record, as far as they were measured; an interval is two of them."""

    def read(row: CheckRow) -> Figures:
        whole = getattr(row.record, section)
        parts = () if whole is None else [getattr(whole, name) for name in names]
        ends = (part if isinstance(part, tuple) else (part,) for part in parts)
        return tuple(value for part in ends for value in part if value is not None)

    return read


def _token(name: str) -> Callable[[CheckRow], Figures]:
    """Return what reads the medians of a time of tokens, of the reference and the candidate."""

    def read(row: CheckRow) -> Figures:
        token = row.record.latency and row.record.latency.token_time(name)
        both = (token.reference_ms, token.candidate_ms) if token else ()
        return tuple(value for value in both if value is not None)

    return read


def _is(unit: str) -> Callable[[Record], str]:
    return lambda _: unit


def _score(row: CheckRow) -> Figures:
    """Return the scores of both engines; the SQNR where there is no metric, which tells as much as can be told."""
    accuracy = row.record.accuracy
    names = ("sqnr_db",) if accuracy is None or accuracy.metric is None else ("reference", "candidate")
    return _of("accuracy", *names)(row)


def _score_label(record: Record) -> str:
    accuracy = record.accuracy
    return "SQNR" if accuracy is None or accuracy.metric is None else _name(accuracy.metric)


def _score_unit(record: Record) -> str:
    accuracy = record.accuracy
    return "dB" if accuracy is None or accuracy.metric is None else clean(accuracy.unit or "")


def _score_remark(record: Record) -> str:
    accuracy = record.accuracy
    if accuracy is None:
        return ""
    identical = accuracy.metric is None and accuracy.identical
    return " ".join(["identical"] * identical + ["simulated"] * accuracy.simulated)


def _drop_unit(record: Record) -> str:
    unit = record.accuracy.unit if record.accuracy else None
    return "pp" if unit == "%" else clean(unit or "")


def _sqnr_remark(record: Record) -> str:
    accuracy = record.accuracy
    return "identical" if accuracy is not None and accuracy.identical and accuracy.sqnr_db is None else ""


def _doubt(record: Record) -> str:
    return "?" if record.latency is not None and record.latency.reasons else ""


def _cache(row: CheckRow) -> str:
    cache = row.record.cache
    if cache is None:
        return NOT_MEASURED
    return "/".join(cache.get(what, NOT_MEASURED) for what in ("engine", "reference"))


COLUMNS: tuple[Column, ...] = (
    Column("test", "test", lambda row: row.test),
    Column("model", "model", lambda row: _name(row.record.model)),
    Column("backend", "backend", lambda row: _name(row.record.backend)),
    Column("precision", "precision", lambda row: _name(row.record.precision)),
    Column("scheme", "scheme", lambda row: _name(row.record.scheme)),
    Column("batch", "batch", lambda row: row.record.batch_size),
    Column("metric", "metric", _score, _score_unit, "{} -> {}", remark=_score_remark, label=_score_label),
    Column("n", "n", lambda row: row.record.accuracy.n if row.record.accuracy else ()),
    Column("drop", "drop", _of("accuracy", "drop"), _drop_unit),
    Column("drop_ci", "drop interval", _of("accuracy", "drop_ci"), _drop_unit, "[{}, {}]"),
    Column("agreement", "agree", _of("accuracy", "agreement_pct"), _is("%")),
    Column("sqnr", "SQNR", _of("accuracy", "sqnr_db"), _is("dB"), remark=_sqnr_remark),
    Column("cosine", "cosine", _of("accuracy", "cosine"), full=1.0),
    Column("max_abs_error", "max error", _of("accuracy", "max_abs_error")),
    Column("kl", "KL", _of("accuracy", "kl"), _is("nats")),
    Column("p50", "p50", _of("latency", "reference_p50_ms", "candidate_p50_ms"), _is("ms"), "{} -> {}"),
    Column("p90", "p90", _of("latency", "candidate_p90_ms"), _is("ms")),
    Column("p99", "p99", _of("latency", "candidate_p99_ms"), _is("ms")),
    Column("ttft", "first token", _token("ttft"), _is("ms"), "{} -> {}"),
    Column("tpot", "per token", _token("tpot"), _is("ms"), "{} -> {}"),
    Column("speedup", "speedup", _of("latency", "speedup"), _is("x"), remark=_doubt),
    Column("speedup_ci", "speedup interval", _of("latency", "speedup_ci"), _is("x"), "[{}, {}]"),
    Column("coverage", "coverage", _of("coverage", "pct", "high_pct"), _is("%"), "{} to {}"),
    Column("size", "size", _of("resources", "size_mb"), _is("MB")),
    Column("memory", "memory", _of("resources", "peak_memory_mb"), _is("MB")),
    Column("build", "build", _of("resources", "build_s"), _is("s")),
    Column("cache", "engine/reference", _cache),
    Column("status", "status", lambda row: row.status),
)

WHICH = ("test", "model", "backend", "precision", "scheme", "batch")
"""The columns that say which check a row is."""

_FIGURES = (
    "metric", "drop", "drop_ci", "agreement", "p50", "ttft", "tpot", "speedup", "speedup_ci", "coverage", "size",
)  # fmt: skip

DEFAULT = ("test", *_FIGURES, "status")
"""The columns that are shown unless others are asked for or no row fills one, beside those of `WHICH` that differ."""

STAY_LONGEST = (
    "test", "status", "drop", "speedup", "metric", "coverage", "ttft", "tpot", "scheme", "p50", "size", "batch",
    "precision", "backend", "model", "agreement", "drop_ci", "speedup_ci",
)  # fmt: skip
"""The columns of `DEFAULT` and `WHICH` in the order in which a narrow terminal has room for them."""


def pick_columns(names: Sequence[str]) -> tuple[Column, ...]:
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
    cells = {column.name: column.cells(rows)[1] for column in COLUMNS}
    differ = [name for name in WHICH[1:] if any(first != second for first, second in pairwise(cells[name]))]
    filled = [name for name in _FIGURES if any(cell != NOT_MEASURED for cell in cells[name])]
    return (DEFAULT[0], *differ, *filled, DEFAULT[-1])
