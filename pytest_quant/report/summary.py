"""What a run prints at its end: the table with one line for each check, and the lines below it."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from pytest_quant.printable import clean
from pytest_quant.record import Record
from pytest_quant.report.columns import (
    EXPECTED,
    REASON,
    STAY_LONGEST,
    WHICH,
    AnyColumn,
    CheckRow,
    Column,
    default_columns,
    pick_columns,
    rows_of,
    word,
)
from pytest_quant.report.text import GAP, Cell, Grid, count, in_unit, points, printed, shorten, width_of
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


_MAX_LISTED = 10
_MOST_PCT = 50.0


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
    """Return one line for each test below a head, without a newline at the end; empty without records.

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
    wanted = [_print(column, rows) for column in pick_columns(columns or default_columns(rows))]
    if not columns:
        wanted = _with_reasons(wanted, rows, width)
    shown, left_out = _fit(wanted, width, (columns[0], "status", *columns) if columns else STAY_LONGEST)
    grid = Grid(tuple(column.size for column in shown), frozenset(i for i, column in enumerate(shown) if column.number))
    lines = [grid.line([column.head for column in shown]), Text("-" * min(width, grid.width()))]
    lines += [grid.line(_cells(shown, index, row, grid)) for index, row in enumerate(rows)]
    text = printed(lines, color)
    if left_out:
        text += _without_room(left_out, picks, width)
    return "\n".join(text)


def _without_room(names: Sequence[str], picks: str, width: int) -> list[str]:
    """Return lines that name columns and the option that picks them, broken between words, the option in one piece."""
    option = f" ({picks}{_NO_BREAK}picks)" if picks else ""
    text = f"no room for {', '.join(names)}{option}"
    lines = textwrap.wrap(text, max(width, 20), subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace(_NO_BREAK, " ") for line in lines]


def _print(column: AnyColumn, rows: Sequence[CheckRow]) -> _Printed:
    head, cells = column.cells(rows)
    size = max(map(cell_len, (head, *cells)))
    return _Printed(column.name, head, cells, size, not isinstance(column, Column) or column.number)


def _with_reasons(columns: Sequence[_Printed], rows: Sequence[CheckRow], width: int) -> list[_Printed]:
    """Return the columns, with one for reasons before the status where the figures leave a reason too little room."""
    longest = max(cell_len(_why(row)) for row in rows)
    if not longest or _used([column for column in columns if column.name not in _NO_FIGURES]) >= _LEAST_REASON:
        return list(columns)
    left = width - _used([_narrowed(column, max(_LEAST_TEST, width // 4)) for column in columns]) - len(GAP)
    size = max(_LEAST_REASON, min(longest, left))
    return [*columns[:-1], _Printed(REASON, REASON, [""] * len(rows), size, number=False), columns[-1]]


def _fit(columns: Sequence[_Printed], width: int, wanted: Sequence[str]) -> tuple[list[_Printed], list[str]]:
    """Return the columns that fit, in their order, and names of others to pick; the first of `wanted` always fits."""
    least = max(_LEAST_TEST, width // 4)
    small = {column.name: _narrowed(column, least) for column in columns}
    fitting_names: set[str] = set()
    for name in (name for name in wanted if name in small):
        if not fitting_names or _used([small[narrow] for narrow in (*fitting_names, name)]) <= width:
            fitting_names.add(name)
    fitting = [small[column.name] for column in columns if column.name in fitting_names]
    room = width - _used(fitting)
    whole = {column.name: column for column in columns}
    shown = [_narrowed(whole[narrow.name], narrow.size + max(room, 0)) for narrow in fitting]
    if _used(shown) > width:
        shown = [_narrowed(narrow, max(_LEAST_REASON, narrow.size + width - _used(shown))) for narrow in shown]
    return shown, [column.name for column in columns if column.name not in fitting_names and column.name != REASON]


def _narrowed(column: _Printed, size: int) -> _Printed:
    """Return the column of test ids with at most `size` cells, the middle of long ids left out; any other as it is."""
    if column.name != "test" or column.size <= size:
        return column
    cells = [shorten(cell, size) for cell in column.cells]
    return _Printed(column.name, column.head, cells, size, column.number)


def _used(columns: Sequence[_Printed]) -> int:
    return width_of([column.size for column in columns])


def _cells(shown: Sequence[_Printed], index: int, row: CheckRow, grid: Grid) -> list[Cell]:
    cells = [
        Cell(column.cells[index], _STYLES.get(column.cells[index], "") if column.name == "status" else "")
        for column in shown
    ]
    reason, first, after = _reason(shown, row, grid)
    return [*cells[:first], Cell(reason, span=after - first), *cells[after:]] if reason else cells


def _reason(shown: Sequence[_Printed], row: CheckRow, grid: Grid) -> tuple[str, int, int]:
    """Return why a check never came to be, and the neighbouring columns of figures that it stands in place of."""
    first = next((place for place, column in enumerate(shown) if column.name not in _NO_FIGURES), len(shown))
    after = next((place for place in range(first, len(shown)) if shown[place].name in _NO_FIGURES), len(shown))
    room = grid.width(first, after)
    why = _why(row)
    if not why or room < _LEAST_REASON:
        return "", 0, 0
    return (why if cell_len(why) <= room else set_cell_size(why, room - 3).rstrip() + "..."), first, after


def _why(row: CheckRow) -> str:
    """Return the first line of why a check never came to be; empty for one that was measured."""
    message = row.record.message
    return clean(message.splitlines()[0]) if message and row.record.accuracy is None else ""


def summary(records: Sequence[Record], expected: Collection[str] = ()) -> str:
    """Return counts per status, what did not run, what could not be told, what got better, and the cache's part.

    Empty without records. `expected` are the node ids of tests that failed as they were expected to.
    """
    if not records:
        return ""
    lines = [
        counted(records, expected),
        *_unavailable(records),
        *_simulated(records),
        *_few(list(_open_limits(records))),
        *_few(list(_mostly_float(records))),
        *_few(list(_doubts(records))),
        *_few(list(_without_limits(records))),
        *_few(list(_better(records))),
        *_compared_with(records),
        *_cache(records),
    ]
    return "\n".join(lines)


def counted(records: Sequence[Record], expected: Collection[str] = ()) -> str:
    """Return the number of checks with each status.

    `expected` are the node ids of tests that failed as they were expected to.
    """
    counts = Counter(word(record, expected) for record in records)
    words = (*(status.value for status in reversed(Status)), EXPECTED)
    texts = ", ".join(f"{counts[status]} {status}" for status in words if counts[status])
    return f"{count(len(records), 'check')}: {texts}"


def name_of(record: Record) -> str:
    """Return ``digits ort-int8-static``, safe to print."""
    return clean(f"{record.model} {record.engine_id}")


def _few(lines: list[str]) -> list[str]:
    more = len(lines) - _MAX_LISTED
    return lines if more <= 0 else [*lines[:_MAX_LISTED], f"... and {more} more of these"]


def _unavailable(records: Sequence[Record]) -> Iterator[str]:
    """One line for each reason, because a runtime that is missing is missing for many checks."""
    reasons = Counter(record.message for record in records if record.status is Status.UNAVAILABLE)
    for message, number in reasons.items():
        first, *rest = message.splitlines() or [""]
        reason = "; ".join(clean(line.strip()) for line in (first, *rest))
        yield f"UNAVAILABLE: {count(number, 'check')} NOT RUN: {reason}"


def _simulated(records: Sequence[Record]) -> Iterator[str]:
    """One line for all of them: a PASS of a simulation is not one of a device."""
    number = sum(record.accuracy is not None and record.accuracy.simulated for record in records)
    if number:
        yield f"SIMULATED: {count(number, 'check')} judged by float simulation; nothing of them ran on the device"


def _open_limits(records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        for verdict in record.verdicts or ():
            if verdict.status in (Status.INCONCLUSIVE, Status.NO_BASELINE):
                yield f"{verdict.status.value}: {name_of(record)}: {clean(verdict.limit)}: {clean(verdict.reason)}"


def _mostly_float(records: Sequence[Record]) -> Iterator[str]:
    """One line for each engine that passes and whose scheme left most of the compute in float."""
    for record in records:
        coverage = record.coverage
        if (
            coverage is None
            or coverage.most_pct is None
            or coverage.most_pct >= _MOST_PCT
            or not coverage.not_quantizable
        ):
            continue
        if any(verdict.limit == "min_coverage" and verdict.status is Status.PASS for verdict in record.verdicts or ()):
            left = ", ".join(f"{clean(name)} ({points(share)} %)" for name, share in coverage.not_quantizable.items())
            share = f"{points(coverage.most_pct)} % of {coverage.unit} ran in {record.precision}"
            yield f"mostly float: {name_of(record)}: {share}; {record.scheme} cannot quantize {left}"


def _doubts(records: Sequence[Record]) -> Iterator[str]:
    """Explain the question marks of the table, where no limit did."""
    for record in records:
        said = "".join(verdict.reason for verdict in record.verdicts or ())
        reasons = [reason for reason in record.latency.reasons if reason not in said] if record.latency else []
        if reasons:
            yield f"timing in doubt (?): {name_of(record)}: {clean('; '.join(reasons))}"


def _without_limits(records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        if record.verdicts is None:
            continue
        judged = {verdict.limit for verdict in record.verdicts}
        if all(verdict.implicit for verdict in record.verdicts):
            beside = " beside coverage" if "min_coverage" in judged else ""
            yield f"no limit set{beside}: {name_of(record)}"


def _better(records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        accuracy = record.accuracy
        if accuracy is not None and accuracy.drop is not None and accuracy.drop < 0.0:
            scores = f"{in_unit(accuracy.reference, accuracy.unit)} -> {in_unit(accuracy.candidate, accuracy.unit)}"
            score = clean(f"{accuracy.metric} {scores} {accuracy.unit or ''}".rstrip())
            yield f"better than FP32: {name_of(record)}: {score}"


def _compared_with(records: Sequence[Record]) -> Iterator[str]:
    """One line for each latency reference on a device with TF32, or that is not FP32: speedups depend on it."""
    number = Counter(record.latency.compared_with for record in records if record.latency is not None)
    return (f"latency reference {clean(state)}: {count(number[state], 'check')}" for state in number if state)


def _cache(records: Sequence[Record]) -> Iterator[str]:
    used = [record.cache for record in records if record.cache is not None]
    if not used:
        return
    engines, references = (Counter(cache.get(what) for cache in used) for what in ("engine", "reference"))
    yield (
        f"{count(engines['built'], 'engine')} built, {engines['hit']} from cache; "
        f"{count(references['built'], 'reference')} evaluated, {references['hit']} from cache"
    )
