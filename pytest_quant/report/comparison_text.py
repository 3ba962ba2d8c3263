"""A comparison of two commits as a dense table for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.text import Text

from pytest_quant.history.compare import CONFIDENCE, Comparison, Outcome, Row, Ruling
from pytest_quant.report.comparison import (
    by_test,
    change,
    differences,
    level,
    name,
    other_lists,
    p_value,
    remarks,
    title,
    unchanged,
    values,
    verdict,
)
from pytest_quant.report.text import GAP, Cell, Grid, printed

_INDENT = "    "

_HEADERS = ("outcome", "quantity", "base -> head", f"change [{100 * CONFIDENCE:g} %]", "p (Holm)")

_STYLES = {
    Outcome.REGRESSION: "bold red",
    Outcome.ACCEPTED: "yellow",
    Outcome.WORSE: "yellow",
    Outcome.IMPROVEMENT: "green",
    Outcome.BETTER: "green",
    Outcome.CHANGED: "cyan",
}

_MAX_LISTED = 10


def comparison_text(
    comparison: Comparison, ruling: Ruling, width: int, color: bool = False, *, rows: Sequence[Row] | None = None
) -> str:
    """Return the comparison as a dense table, changed rows first, without a newline at the end.

    What did not change is counted in one line. Nothing is cut: what does not fit into `width` cells goes on in the
    next line.

    Parameters
    ----------
    comparison : of two commits.
    ruling : what it comes to.
    width : of the terminal, in cells.
    color : put ANSI colours around the outcomes.
    rows : that stand in the table; ``None`` for those that changed.
    """
    lines = [*_wrap(title(comparison), width, ""), *_wrap(verdict(comparison, ruling), width, "")]
    lines += printed(_table(comparison.changed if rows is None else rows, width), color)
    for heading, entries in other_lists(comparison):
        lines += _listed(heading, entries, width)
    for line in (*comparison.notes, unchanged(comparison), level(comparison)):
        lines += _wrap(line, width, "") if line else []
    return "\n".join(lines)


def _table(rows: Sequence[Row], width: int) -> Iterator[Text]:
    if not rows:
        return
    cells = {id(row): _cells(row) for row in rows}
    grid = Grid.around([_HEADERS, *cells.values()])
    yield from _lines([Cell(head) for head in _HEADERS], grid, width)
    yield Text("-" * min(width, len(GAP) + grid.width()))
    for group in by_test(rows):
        yield from map(Text, _wrap(name(group[0]), width, ""))
        for row in group:
            outcome, *others = map(Cell, cells[id(row)])
            styled = replace(outcome, style=_STYLES.get(row.outcome, ""))
            yield from _lines([styled, *others], grid, width)
            for remark in remarks(row):
                yield from map(Text, _wrap(remark, width, _INDENT))
        for line in differences(group[0]):
            yield from map(Text, _wrap(line, width, GAP))


def _cells(row: Row) -> list[str]:
    return [row.outcome.value, row.quantity, values(row), change(row), p_value(row)]


def _lines(cells: Sequence[Cell], grid: Grid, width: int) -> Iterator[Text]:
    """Yield the cells on one indented line, or folded onto as many as they need."""
    first, indent = 0, GAP
    for after in range(1, len(cells) + 1):
        if after < len(cells):
            used = len(indent) + grid.width(first, after) + len(GAP)
            if used + cell_len(cells[after].text) <= width:
                continue
        yield Text(indent) + grid.line(cells[first:after], first)
        first, indent = after, _INDENT


def _listed(heading: str, entries: Sequence[str], width: int) -> Iterator[str]:
    yield from _wrap(f"{heading} ({len(entries)}):", width, "")
    for entry in entries[:_MAX_LISTED]:
        yield from _wrap(entry, width, _INDENT)
    if len(entries) > _MAX_LISTED:
        yield f"{_INDENT}and {len(entries) - _MAX_LISTED} more; --json has all of them"


def _wrap(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        text, max(width, 20), initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False
    )
