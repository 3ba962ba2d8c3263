"""The columns of the table: what each is called and what it shows of a record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from pytest_quant.errors import UsageError, nearest
from pytest_quant.printable import clean
from pytest_quant.record import Record
from pytest_quant.record.figures import DROP, FIGURES
from pytest_quant.report.text import NOT_MEASURED, decimals, format_fixed, shorten, shown_unit
from pytest_quant.result import AccuracyResult, Interval, Status

_MAX_NAME = 32
EXPECTED = "XFAIL"
"""The word for a check that failed as its test said it would."""

TEST_FAILED = "TEST FAILED"
"""The word for a check that passed in a test that failed for another reason."""


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check as the table names it: its record, the short id of its test, and its `word`."""

    record: Record
    test: str
    status: str


def rows_of(records: Sequence[Record], broken: Collection[str] = ()) -> list[CheckRow]:
    """Return one row for each record, see `word`."""
    names = _short_ids([record.nodeid for record in records])
    return [CheckRow(record, clean(names[record.nodeid]), word(record, broken)) for record in records]


def word(record: Record, broken: Collection[str] = ()) -> str:
    """Return the status of `record`, or the word for a test that ended otherwise than its check.

    `broken` are the node ids of tests that failed and should not have.
    """
    failed = record.status in (Status.FAIL, Status.ERROR)
    if record.status is Status.PASS and record.nodeid in broken:
        return TEST_FAILED
    return EXPECTED if failed and record.expected else record.status.value


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


class Cell(NamedTuple):
    """The figures of one record in one column.

    Attributes
    ----------
    figures : none where nothing was measured.
    unit : of the figures.
    label : what the figures are called, in place of the head; empty where all records have the same.
    remark : what stands behind the figures, or in place of them.
    """

    figures: tuple[float, ...] = ()
    unit: str = ""
    label: str = ""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table.

    Attributes
    ----------
    read : what a cell shows of a row: a text, a whole number, or figures.
    form : how the figures of a cell stand in it, one ``{}`` for each.
    full : the whole of a share, see `decimals`; percentages have theirs by their unit.
    """

    name: str
    head: str
    read: Callable[[CheckRow], str | int | Cell]
    form: str = "{}"
    full: float | None = None

    def cells(self, rows: Sequence[CheckRow]) -> tuple[str, list[str], bool]:
        """Return the head, one cell for each row, and whether they end below each other, as figures do.

        All figures have the same number of decimals, and the unit is in the head. Where rows have figures of several
        kinds the decimals are those of each kind, and the cells have the units.
        """
        values = [self.read(row) for row in rows]
        if any(isinstance(value, (str, int)) for value in values):
            texts = [NOT_MEASURED if isinstance(value, Cell) else str(value) for value in values]
            return self.head, texts, any(isinstance(value, int) for value in values)
        cells = [value for value in values if isinstance(value, Cell)]
        measured = [cell for cell in cells if cell.figures or cell.remark]
        kinds = list(dict.fromkeys((cell.label, cell.unit) for cell in measured))
        digits = {
            kind: decimals(
                (value for cell in measured if (cell.label, cell.unit) == kind for value in cell.figures),
                full=100.0 if kind[1] in ("%", "pp") else self.full,
            )
            for kind in kinds
        }
        is_right = len(kinds) < 2 or not any(label for label, _ in kinds)
        longest = max((len(cell.remark) for cell in measured if cell.figures and is_right), default=0)
        texts = []
        for figures, unit, label, remark in cells:
            numbers = [format_fixed(value, digits[label, unit]) for value in figures]
            text = self.form.format(*numbers) if len(numbers) == self.form.count("{}") else " ".join(numbers)
            parts = [text] if len(kinds) == 1 else [label, text, unit if numbers else ""]
            # Blanks in place of a remark keep the digits below each other.
            parts.append(remark.ljust(longest if numbers else 0))
            texts.append(" ".join(filter(None, parts)) if numbers or remark else NOT_MEASURED)
        label, unit = kinds[0] if len(kinds) == 1 else ("", "")
        return f"{label or self.head} {unit}".rstrip(), texts, is_right

    def sort_value(self, row: CheckRow) -> float | None:
        """Return the number that a row is sorted by, the last one of its cell; ``None`` for a text and for nothing."""
        value = self.read(row)
        if isinstance(value, Cell):
            return value.figures[-1] if value.figures else None
        return value if isinstance(value, int) else None


def _name(text: str | None) -> str:
    return shorten(clean(text), _MAX_NAME) if text else NOT_MEASURED


def _text(name: str) -> Callable[[CheckRow], str]:
    return lambda row: _name(getattr(row.record, name))


def _known(*values: float | Interval | None) -> tuple[float, ...]:
    """Return the figures that were measured; an interval is two figures."""
    ends = (value if isinstance(value, tuple) else (value,) for value in values)
    return tuple(end for of_value in ends for end in of_value if end is not None)


def _read_section(
    section: str, *names: str, unit: str = "", remark: Callable[[Any], str] = lambda _: ""
) -> Callable[[CheckRow], Cell]:
    """Return what reads figures of a section of a record, in `unit`, see `Figure`; `remark` is about the section."""

    def read(row: CheckRow) -> Cell:
        if (whole := getattr(row.record, section)) is None:
            return Cell()
        values = _known(*(getattr(whole, name) for name in names))
        return Cell(values, shown_unit(unit, row.record.accuracy), remark=remark(whole))

    return read


def _own(section: str) -> Iterator[Column]:
    """Yield the columns of single figures of a section."""
    for each in FIGURES:
        of, _, name = each.place.partition(".")
        column, _, head = each.column.partition(":")
        if column and of == section:
            yield Column(column, head or column, _read_section(section, name, unit=each.unit))


def _token(name: str) -> Callable[[CheckRow], Cell]:
    """Return what reads the medians of a time of tokens, of the reference and the candidate."""

    def read(row: CheckRow) -> Cell:
        token = row.record.latency and row.record.latency.token_time(name)
        return Cell(_known(token.reference_ms, token.candidate_ms) if token else (), "ms")

    return read


def _score(row: CheckRow) -> Cell:
    """Return the scores of both engines; without a metric, the SQNR, which is the best figure there is."""
    accuracy = row.record.accuracy
    if accuracy is None:
        return Cell()
    simulated = ["simulated"] * accuracy.simulated
    if accuracy.metric is None:
        remark = " ".join(["identical"] * accuracy.identical + simulated)
        return Cell(_known(accuracy.sqnr_db), "dB", "SQNR", remark)
    scores = _known(accuracy.reference, accuracy.candidate)
    return Cell(scores, clean(accuracy.unit or ""), _name(accuracy.metric), *simulated)


def _without_noise(accuracy: AccuracyResult) -> str:
    return "identical" if accuracy.identical and accuracy.sqnr_db is None else ""


def _cache(row: CheckRow) -> str:
    cache = row.record.cache
    if cache is None:
        return NOT_MEASURED
    return "/".join(cache.get(what, NOT_MEASURED) for what in ("engine", "reference"))


def _portability(row: CheckRow) -> str:
    """Return on which processors the verdict holds: ``any``, ``VNNI`` or, where it is not known, ``?``."""
    found = row.record.portability
    return NOT_MEASURED if found is None else {"any": "any", "vnni": "VNNI"}.get(found.holds or "", "?")


COLUMNS: tuple[Column, ...] = (
    Column("test", "test", lambda row: row.test),
    *(Column(name, name, _text(name)) for name in ("model", "backend", "precision", "scheme")),
    Column("batch", "batch", lambda row: row.record.batch_size),
    Column("metric", "metric", _score, "{} -> {}"),
    Column("n", "n", lambda row: row.record.accuracy.n if row.record.accuracy else Cell()),
    *_own("accuracy"),
    Column("drop_ci", "drop interval", _read_section("accuracy", "drop_ci", unit=DROP), "[{}, {}]"),
    Column("sqnr", "SQNR", _read_section("accuracy", "sqnr_db", unit="dB", remark=_without_noise)),
    Column("cosine", "cosine", _read_section("accuracy", "cosine"), full=1.0),
    Column("p50", "p50", _read_section("latency", "reference_p50_ms", "candidate_p50_ms", unit="ms"), "{} -> {}"),
    *_own("latency"),
    Column("ttft", "first token", _token("ttft"), "{} -> {}"),
    Column("tpot", "per token", _token("tpot"), "{} -> {}"),
    Column(
        "speedup", "speedup", _read_section("latency", "speedup", unit="x", remark=lambda of: "?" * bool(of.reasons))
    ),
    Column("speedup_ci", "speedup interval", _read_section("latency", "speedup_ci", unit="x"), "[{}, {}]"),
    Column("coverage", "coverage", _read_section("coverage", "pct", "high_pct", unit="%"), "{} to {}"),
    *_own("resources"),
    Column("memory", "memory", _read_section("resources", "peak_memory_mb", unit="MB")),
    Column("isa", "ISA", _text("isa")),
    Column("portability", "CPUs", _portability),
    Column("cache", "engine/reference", _cache),
    Column("status", "status", lambda row: row.status),
)

WHICH = ("test", "model", "backend", "precision", "scheme", "batch")
"""The columns that say which check a row is."""

_FIGURES = (
    "metric", "drop", "drop_ci", "agreement", "p50", "ttft", "tpot", "speedup", "speedup_ci", "coverage",
    "portability", "size",
)  # fmt: skip

DEFAULT = ("test", *_FIGURES, "status")
"""The columns that are shown unless others are asked for or no row fills one, beside those of `WHICH` that differ."""


def pick_columns(names: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns called `names`, in that order. Raises `UsageError` for an unknown name."""
    by_name = {column.name: column for column in COLUMNS}
    for name in names:
        if name not in by_name:
            what = f"--quant-columns: there is no column '{clean(name)}'"
            raise UsageError(what, allowed=nearest(name, by_name), fix=f"write --quant-columns={','.join(DEFAULT)}")
    return tuple(by_name[name] for name in names)


def default_columns(rows: Sequence[CheckRow]) -> tuple[str, ...]:
    """Return the test first, then what differs between `rows`, then the figures that a row has, and the status."""
    cells = {column.name: column.cells(rows)[1] for column in COLUMNS}
    differ = [name for name in WHICH[1:] if any(first != second for first, second in pairwise(cells[name]))]
    filled = [name for name in _FIGURES if any(cell != NOT_MEASURED for cell in cells[name])]
    return (DEFAULT[0], *differ, *filled, DEFAULT[-1])
