"""A comparison of two commits as a dense table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from rich.cells import cell_len

from pytest_quant.history.compare.comparison import CONFIDENCE, Comparison, Outcome, Row
from pytest_quant.report import comparison as words
from pytest_quant.report.text import GAP, aligned, wrapped

_INDENT = "    "

_HEADERS = ("outcome", "quantity", "base -> head", f"change [{100 * CONFIDENCE:g} %]")

_STYLES: Mapping[Outcome, Mapping[str, Any]] = {
    Outcome.REGRESSION: {"fg": "red", "bold": True},
    Outcome.ACCEPTED: {"fg": "yellow"},
    Outcome.WORSE: {"fg": "yellow"},
    Outcome.IMPROVEMENT: {"fg": "green"},
    Outcome.BETTER: {"fg": "green"},
    Outcome.CHANGED: {"fg": "cyan"},
}

_MAX_LISTED = 10


def comparison_text(
    comparison: Comparison, width: int, color: bool = False, *, rows: Sequence[Row] | None = None
) -> str:
    """Return the comparison as a dense table, changed rows first, without a newline at the end.

    What did not change is counted in one line. Nothing is cut: what does not fit into `width` cells goes on in the
    next line.

    Parameters
    ----------
    comparison : of two commits.
    width : of the terminal, in cells.
    color : put ANSI colours around the outcomes.
    rows : that stand in the table; ``None`` for those that changed.
    """
    lines = [*wrapped(words.title(comparison), width), *wrapped(words.verdict(comparison), width)]
    lines += _table(comparison.changed if rows is None else rows, width, color)
    for heading, entries in words.other_lists(comparison):
        lines += wrapped(f"{heading} ({len(entries)}):", width)
        for entry in entries[:_MAX_LISTED]:
            lines += wrapped(entry, width, _INDENT)
        if len(entries) > _MAX_LISTED:
            lines.append(f"{_INDENT}and {len(entries) - _MAX_LISTED} more; --json has all of them")
    for line in (*comparison.notes, words.unchanged(comparison)):
        lines += wrapped(line, width)
    return "\n".join(lines)


def _table(rows: Sequence[Row], width: int, color: bool) -> Iterator[str]:
    if not rows:
        return
    cells = [[row.outcome.value, row.quantity, words.values(row), words.change(row)] for row in rows]
    head, *lines = [GAP + line for line in aligned([_HEADERS, *cells])]
    yield from _fitting(head, width)
    yield "-" * min(width, max(map(cell_len, (head, *lines))))
    line_of = {id(row): line for row, line in zip(rows, lines, strict=True)}
    for group in words.by_test(rows):
        yield from wrapped(words.name(group[0]), width)
        for row in group:
            styled = click.style(row.outcome.value, **_STYLES.get(row.outcome, {})) if color else row.outcome.value
            for line in _fitting(line_of[id(row)], width):
                yield line.replace(row.outcome.value, styled, 1)
            for remark in words.remarks(row):
                yield from wrapped(remark, width, _INDENT)
        for line in words.differences(group[0]):
            yield from wrapped(line, width, GAP)


def _fitting(line: str, width: int) -> list[str]:
    """Return a line of the table, broken between words where it has no room."""
    return [line] if cell_len(line) <= width else wrapped(" ".join(line.split()), width, GAP)
