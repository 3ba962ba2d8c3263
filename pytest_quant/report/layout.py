"""The table of a run: one row for each check, folded where the terminal is narrow."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pytest_quant.record import Record
from pytest_quant.report.columns import Column, default_columns, pick_columns
from pytest_quant.report.text import shorten
from pytest_quant.result import Status

_GAP = "  "
_INDENT = "    "
_STYLES = {
    Status.PASS.value: "green",
    Status.FAIL.value: "bold red",
    Status.ERROR.value: "bold red",
    Status.UNAVAILABLE.value: "bold yellow",
    Status.INCONCLUSIVE.value: "yellow",
    Status.NO_BASELINE.value: "yellow",
}

_Line = list[tuple[Column, int]]
"""The columns of one printed line, each with the cells it takes."""


def table(records: Sequence[Record], width: int, columns: Sequence[str] | None = None, color: bool = False) -> str:
    """Return one row for each record, without a newline at the end; empty without records.

    Where the columns do not fit into `width` cells of the terminal they are folded: each check takes several
    lines, and the header as many. A figure that was not measured is ``-``, and a figure is never cut.

    Parameters
    ----------
    columns : names in the order wanted; ``None`` for the default ones.
    color : put ANSI colours around the statuses.

    Raises
    ------
    UsageError : a column does not exist; the message names the nearest.
    """
    if not records:
        return ""
    lines = _fold(pick_columns(columns or default_columns(records, folded=False)), records, width)
    if len(lines) > 1 and not columns:
        lines = _fold(pick_columns(default_columns(records, folded=True)), records, width)
    rule = Text("-" * min(width, max(_used(line, index) for index, line in enumerate(lines))))
    folded = len(lines) > 1
    heads = [_head(line, index, folded) for index, line in enumerate(lines)]
    rows = [_row(line, index, record, folded) for record in records for index, line in enumerate(lines)]
    return "\n".join(_render(text, color) for text in [*heads, rule, *rows])


def _fold(columns: Sequence[Column], records: Sequence[Record], width: int) -> list[_Line]:
    """Spread the columns over as many lines as they need."""
    lines: list[_Line] = [[]]
    for column in columns:
        size = max(cell_len(column.header), *(cell_len(column.cell(record)) for record in records))
        if column.shortens:
            size = min(size, width)
        if lines[-1] and _used([*lines[-1], (column, size)], len(lines) - 1) > width:
            lines.append([])
        lines[-1].append((column, size))
    return lines


def _used(line: _Line, index: int) -> int:
    return sum(size for _, size in line) + len(_GAP) * (len(line) - 1) + (len(_INDENT) if index else 0)


def _head(line: _Line, index: int, folded: bool) -> Text:
    cells = [Text(_pad(column.header, size, column.number and not folded)) for column, size in line]
    return _join(cells, index)


def _row(line: _Line, index: int, record: Record, folded: bool) -> Text:
    cells = []
    for column, size in line:
        shown = shorten(column.cell(record), size) if column.shortens else column.cell(record)
        cells.append(Text(_pad(shown, size, column.number and not folded), style=_STYLES.get(shown, "")))
    return _join(cells, index)


def _pad(text: str, size: int, to_the_right: bool) -> str:
    blank = " " * (size - cell_len(text))
    return blank + text if to_the_right else text + blank


def _join(cells: list[Text], index: int) -> Text:
    joined = Text(_INDENT if index else "") + Text(_GAP).join(cells)
    joined.rstrip()
    return joined


def _render(text: Text, color: bool) -> str:
    if not color:
        return text.plain
    out = io.StringIO()
    # Without a width of its own the console would wrap and measure; this only turns styles into escapes.
    console = Console(file=out, force_terminal=True, color_system="standard", legacy_windows=False)
    console.print(text, end="", soft_wrap=True, markup=False, highlight=False)
    return out.getvalue()
