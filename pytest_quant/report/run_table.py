"""The table of a run: one line for each check, whatever the width of the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from pytest_quant.record import Record
from pytest_quant.report.columns import (
    EXPECTED,
    REASON,
    STAY_LONGEST,
    WHICH,
    AnyColumn,
    Column,
    Row,
    default_columns,
    pick_columns,
    rows_of,
)
from pytest_quant.report.grid import GAP, Cell, Grid, printed, width_of
from pytest_quant.report.text import clean, shorten
from pytest_quant.result import Status

_LEAST_TEST = 30
"""Cells that the id of a test may always take, before a column is left out for it."""
_LEAST_REASON = 12
_NO_FIGURES = (*WHICH, "status")
_NO_BREAK = "\N{NO-BREAK SPACE}"
_STYLES = {
    Status.PASS.value: "green",
    Status.FAIL.value: "bold red",
    Status.ERROR.value: "bold red",
    Status.UNAVAILABLE.value: "bold yellow",
    Status.INCONCLUSIVE.value: "yellow",
    Status.NO_BASELINE.value: "yellow",
    EXPECTED: "yellow",
}


@dataclass(frozen=True, slots=True)
class _Printed:
    """A column as it is printed: its head, one cell for each row, and the cells of the terminal that it takes."""

    name: str
    head: str
    cells: Sequence[str]
    size: int
    number: bool


def table(
    records: Sequence[Record],
    width: int,
    columns: Sequence[str] | None = None,
    color: bool = False,
    *,
    expected: Collection[str] = (),
    picks: str = "",
) -> str:
    """Return one line for each record below a head, without a newline at the end; empty without records.

    Columns that do not fit into `width` cells of the terminal are left out and named in a last line; so are, without a
    word, figures that no row has, unless `columns` asks for them. A figure that was not measured is ``-``, and a figure
    is never cut. A check that never came to be says why in place of its figures.

    Parameters
    ----------
    columns : names in the order wanted; ``None`` for the default ones.
    color : put ANSI colours around the statuses.
    expected : node ids of tests that failed as they were expected to; they are XFAIL.
    picks : the option that picks columns, named where some are left out; empty where there is none.

    Raises
    ------
    UsageError : a column does not exist; the message names the nearest.
    """
    if not records:
        return ""
    rows = rows_of(records, expected)
    found = [_print(column, rows) for column in pick_columns(columns or default_columns(rows))]
    if not columns:
        found = _with_reasons(found, rows, width)
    shown, left_out = _fit(found, width, columns or STAY_LONGEST)
    grid = Grid(tuple(column.size for column in shown), frozenset(i for i, column in enumerate(shown) if column.number))
    lines = [grid.line([column.head for column in shown]), Text("-" * min(width, grid.width()))]
    lines += [grid.line(_cells(shown, index, row, grid)) for index, row in enumerate(rows)]
    told = printed(lines, color)
    if left_out:
        told += _without_room(left_out, picks, width)
    return "\n".join(told)


def _without_room(names: Sequence[str], picks: str, width: int) -> list[str]:
    """Return lines that name columns and the option that picks them, broken between words, the option in one piece."""
    option = f" ({picks}{_NO_BREAK}picks)" if picks else ""
    text = f"no room for {', '.join(names)}{option}"
    lines = textwrap.wrap(text, max(width, 20), subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace(_NO_BREAK, " ") for line in lines]


def _print(column: AnyColumn, rows: Sequence[Row]) -> _Printed:
    head, cells = column.cells(rows)
    size = max(map(cell_len, (head, *cells)))
    return _Printed(column.name, head, cells, size, not isinstance(column, Column) or column.number)


def _with_reasons(found: Sequence[_Printed], rows: Sequence[Row], width: int) -> list[_Printed]:
    """Return the columns, with one for reasons before the status where the figures leave a reason too little room."""
    longest = max(cell_len(_why(row)) for row in rows)
    if not longest or _used([column for column in found if column.name not in _NO_FIGURES]) >= _LEAST_REASON:
        return list(found)
    left = width - _used([_narrowed(column, max(_LEAST_TEST, width // 4)) for column in found]) - len(GAP)
    size = max(_LEAST_REASON, min(longest, left))
    return [*found[:-1], _Printed(REASON, REASON, [""] * len(rows), size, number=False), found[-1]]


def _fit(found: Sequence[_Printed], width: int, wanted: Sequence[str]) -> tuple[list[_Printed], list[str]]:
    """Return the columns that fit, in their order, and names of others to pick; the first of `wanted` always fits."""
    least = max(_LEAST_TEST, width // 4)
    small = {column.name: _narrowed(column, least) for column in found}
    kept: set[str] = set()
    for name in (name for name in wanted if name in small):
        if not kept or _used([small[one] for one in (*kept, name)]) <= width:
            kept.add(name)
    fitting = [small[column.name] for column in found if column.name in kept]
    room = width - _used(fitting)
    whole = {column.name: column for column in found}
    shown = [_narrowed(whole[one.name], one.size + max(room, 0)) for one in fitting]
    if _used(shown) > width:
        shown = [_narrowed(one, max(_LEAST_REASON, one.size + width - _used(shown))) for one in shown]
    return shown, [column.name for column in found if column.name not in kept and column.name != REASON]


def _narrowed(column: _Printed, size: int) -> _Printed:
    """Return the column of test ids with at most `size` cells, the middle of long ids left out; any other as it is."""
    if column.name != "test" or column.size <= size:
        return column
    cells = [shorten(cell, size) for cell in column.cells]
    return _Printed(column.name, column.head, cells, size, column.number)


def _used(columns: Sequence[_Printed]) -> int:
    return width_of([column.size for column in columns])


def _cells(shown: Sequence[_Printed], index: int, row: Row, grid: Grid) -> list[Cell]:
    cells = [
        Cell(column.cells[index], _STYLES.get(column.cells[index], "") if column.name == "status" else "")
        for column in shown
    ]
    reason, first, after = _reason(shown, row, grid)
    return [*cells[:first], Cell(reason, span=after - first), *cells[after:]] if reason else cells


def _reason(shown: Sequence[_Printed], row: Row, grid: Grid) -> tuple[str, int, int]:
    """Return why a check never came to be, and the neighbouring columns of figures that it stands in place of."""
    first = next((place for place, column in enumerate(shown) if column.name not in _NO_FIGURES), len(shown))
    after = next((place for place in range(first, len(shown)) if shown[place].name in _NO_FIGURES), len(shown))
    room = grid.width(first, after)
    told = _why(row)
    if not told or room < _LEAST_REASON:
        return "", 0, 0
    return (told if cell_len(told) <= room else set_cell_size(told, room - 3).rstrip() + "..."), first, after


def _why(row: Row) -> str:
    """Return the first line of why a check never came to be; empty for one that was measured."""
    message = row.record.message
    return clean(message.splitlines()[0]) if message and row.record.accuracy is None else ""
