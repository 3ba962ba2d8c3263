"""What a page shows, as frozen values: everything is worked out before a template sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from pytest_quant.record import Json


@dataclass(frozen=True, slots=True)
class TableCell:
    """A text in a table; `value` is the number that it shows, by which rows are sorted, ``None`` for a plain text."""

    text: str
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """A list of facts, each a label and a text; under a `title` only that is shown until it is opened."""

    kind: ClassVar[str] = "facts"
    facts: tuple[tuple[str, str], ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A small table.

    Attributes
    ----------
    rows : those that are shown.
    more : what is told of the rows that are left out; empty when all are shown.
    """

    kind: ClassVar[str] = "table"
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    more: str = ""


@dataclass(frozen=True, slots=True)
class Lines:
    """Sentences, each on a line of its own."""

    kind: ClassVar[str] = "lines"
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A line for a shell, and what it is for."""

    kind: ClassVar[str] = "command"
    about: str
    line: str


@dataclass(frozen=True, slots=True)
class RoundsChart:
    """Where the times of reference, null and candidate by round are drawn; `name` is that of its data in the page."""

    kind: ClassVar[str] = "rounds"
    name: str
    about: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of an axis: its place in the drawing, and its text."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class IntervalPlot:
    """A figure with its interval beside its limit, as places from left to right in a drawing of `WIDTH`.

    Attributes
    ----------
    limit, value, low, high : places; ``None`` where there is none.
    broken : the figure lies beyond the limit.
    allowed_from, allowed_to : the side of the limit that is allowed.
    about : all of it in words.
    """

    WIDTH: ClassVar[int] = 300
    limit: float
    value: float | None
    low: float | None
    high: float | None
    broken: bool
    allowed_from: float
    allowed_to: float
    ticks: tuple[Tick, ...]
    about: str


@dataclass(frozen=True, slots=True)
class VerdictView:
    """One limit, judged; `unit` is that of both figures."""

    limit: str
    status: str
    allowed: str
    observed: str
    unit: str
    reason: str
    plot: IntervalPlot | None = None


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All limits of a check."""

    kind: ClassVar[str] = "verdicts"
    verdicts: tuple[VerdictView, ...]


Block: TypeAlias = Facts | Table | Lines | Command | RoundsChart | Verdicts


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a check under a heading of its own."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class CheckView:
    """One check: its row in the table of the run, and what it opens to.

    Attributes
    ----------
    number : its place in the run.
    anchor : the end of an address that opens it.
    name : short id of the test.
    status : its word, ``XFAIL`` for a failure that was expected.
    headline : the first broken limit with both figures, or why there are none; empty when all is well.
    cells : of the table, in the order of its heads, without test and status.
    words : what a search for text looks through, in lower case.
    """

    number: int
    anchor: str
    name: str
    nodeid: str
    status: str
    headline: str
    cells: tuple[TableCell, ...]
    words: str
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class RunView:
    """The table of a run.

    Attributes
    ----------
    heads : of the columns, without test and status.
    counts : checks by status, the worst first.
    lines : what the terminal says below its table.
    broken : numbers of the checks that are named at the top.
    unnamed : how many more there are.
    """

    heads: tuple[str, ...]
    checks: tuple[CheckView, ...]
    counts: tuple[tuple[str, int], ...]
    lines: tuple[str, ...]
    broken: tuple[CheckView, ...]
    unnamed: int


@dataclass(frozen=True, slots=True)
class DifferenceView:
    """One row of the comparison."""

    test: str
    outcome: str
    quantity: str
    values: str
    change: str
    p: str
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """Base against head.

    Attributes
    ----------
    why_not : why there is no comparison; empty when there is one.
    next_step : the command that makes one.
    about : lines that name the two commits and where they come from.
    lists : heading and entries of what is beside the rows.
    unchanged : heading, and the rows that did not change.
    """

    why_not: str = ""
    next_step: str = ""
    word: str = ""
    verdict: str = ""
    about: tuple[str, ...] = ()
    rows: tuple[DifferenceView, ...] = ()
    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()
    unchanged: tuple[str, tuple[DifferenceView, ...]] = ("", ())
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeriesView:
    """One series of the history: its chart, and in words what the chart shows.

    Attributes
    ----------
    anchor : the end of its address.
    told : how many of how many points there are.
    changes : each change of level, one line.
    accepted : the accepted baseline, one line; empty without one.
    check : anchor of this run's check of the series; empty without one.
    """

    anchor: str
    name: str
    told: str
    changes: tuple[str, ...]
    accepted: str
    check: str
    words: str


@dataclass(frozen=True, slots=True)
class HistoryView:
    """All series; `why_not` tells why there are none, `told` what is left out."""

    series: tuple[SeriesView, ...] = ()
    told: str = ""
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Dot:
    """One engine of a Pareto chart.

    Attributes
    ----------
    letter : by which the table below names it.
    x, y, radius : in the drawing; the area is the size of the engine.
    letter_at : (x, y) of the letter, beside the dot; ``None`` where it would hide others.
    reference : it is an FP32 reference, drawn hollow.
    front : no other engine is both faster and at least as accurate.
    number : of the check that it is from.
    """

    letter: str
    x: float
    y: float
    radius: float
    letter_at: tuple[float, float] | None
    reference: bool
    front: bool
    number: int
    anchor: str
    engine: str
    test: str
    score: TableCell
    latency: TableCell
    size: TableCell


@dataclass(frozen=True, slots=True)
class ParetoView:
    """Accuracy against latency of all engines of one model, in a drawing of `WIDTH` by `HEIGHT`."""

    WIDTH: ClassVar[int] = 560
    HEIGHT: ClassVar[int] = 300
    LEFT: ClassVar[int] = 64
    RIGHT: ClassVar[int] = 540
    TOP: ClassVar[int] = 16
    BOTTOM: ClassVar[int] = 256
    title: str
    x_label: str
    y_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    dots: tuple[Dot, ...]
    front: str
    about: str


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page.

    Attributes
    ----------
    title : of the document.
    about : what was run, ``(label, text)``.
    data : what charts are drawn from, by name; see `pytest_quant.report.page.series`.
    """

    title: str
    about: tuple[tuple[str, str], ...]
    run: RunView
    comparison: ComparisonView
    history: HistoryView
    pareto: tuple[ParetoView, ...]
    data: Mapping[str, Json]
    version: str
