"""The parts that every section of a check is put together from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pytest_quant.report.page.content import Block, Facts, Lines, Table, TableCell
from pytest_quant.report.text import NOT_MEASURED, figure
from pytest_quant.result import Interval

_MOST_ROWS = 12

Form = Callable[[float | None], str]
"""Writes a number; ``-`` for one that was not measured."""


def cell(value: float | None, form: Form = figure) -> TableCell:
    """Return a number as a table shows it."""
    return TableCell(form(value), value)


def measured(value: float | None, unit: str, span: Interval | None = None, form: Form = figure) -> str:
    """Return a figure with its interval and its unit; empty where it was not measured.

    Parameters
    ----------
    unit : what stands behind the figure, but an x before it.
    span : interval of the figure.
    form : writes the figure and the ends of its interval.
    """
    if value is None:
        return ""
    text = f"{form(value)} {around(span, form)}".rstrip()
    return f"x{text}" if unit == "x" else f"{text} {unit}".rstrip()


def around(span: Interval | None, form: Form = figure) -> str:
    """Return ``[low, high]``; empty where there is no interval."""
    return "" if span is None else f"[{form(span.low)}, {form(span.high)}]"


def before_after(before: float | None, after: float | None, unit: str = "", form: Form = figure) -> str:
    """Return ``before -> after unit``; empty where neither was measured."""
    return "" if before is None and after is None else f"{form(before)} -> {form(after)} {unit}".rstrip()


def whole(value: float | None) -> str:
    """Return a whole number without an exponent."""
    return NOT_MEASURED if value is None else f"{value:.0f}"


def facts(*labelled: tuple[str, str]) -> Iterator[Block]:
    """Yield one list of those facts, label and text, whose text says something."""
    if said := tuple(fact for fact in labelled if fact[1] not in ("", NOT_MEASURED)):
        yield Facts(said)


def lines(texts: Iterable[str]) -> Iterator[Block]:
    """Yield one block of all texts, if there are any."""
    if said := tuple(texts):
        yield Lines(said)


def table(
    caption: str, head: Sequence[str], rows: Sequence[tuple[TableCell, ...]], *, most: int = _MOST_ROWS
) -> Iterator[Block]:
    """Yield a table of the first `most` rows, which tells how many more there are; nothing without rows.

    Parameters
    ----------
    caption : what it is of.
    head : of its columns.
    rows : the most important first.
    most : rows that are shown.
    """
    if rows:
        left = len(rows) - most
        more = f"and {left} more; --quant-json FILE writes all of them" if left > 0 else ""
        yield Table(caption, tuple(head), tuple(rows[:most]), more)
