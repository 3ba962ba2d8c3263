"""A comparison of two commits as text and as a comment of a pull request."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.text import Text

from pytest_quant.history.compare import (
    CONFIDENCE,
    Comparison,
    Difference,
    Listed,
    Outcome,
    Renamed,
    Reversioned,
    Row,
    Side,
)
from pytest_quant.printable import clean
from pytest_quant.report.text import GAP, NOT_MEASURED, Cell, Grid, count, figure, in_unit, printed, shorten

_COMMIT = 12
_MAX_VALUE = 24
_MAX_DIFFERENCES = 8
_PLURALS = {
    Outcome.REGRESSION: ("regression", "regressions"),
    Outcome.WORSE: ("worse that does not gate",) * 2,
    Outcome.IMPROVEMENT: ("improvement", "improvements"),
    Outcome.BETTER: ("better that is not proven",) * 2,
    Outcome.CHANGED: ("neutral change", "neutral changes"),
    Outcome.INCONCLUSIVE: ("inconclusive",) * 2,
    Outcome.NO_BASELINE: ("without a baseline",) * 2,
    Outcome.UNCHANGED: ("unchanged",) * 2,
}


MARKER = "<!-- pytest-quant compare -->"
"""First line of every such comment: a job finds its earlier comment by it, and replaces it."""

MAX_CHARACTERS = 60_000
"""GitHub refuses a comment of more than 65 536."""

_MARKUP = frozenset("&<>|`*_[]~\\:$")

_REFERENCES = frozenset("@#")
"""GitHub looks for mentions and issues in what is rendered; only another character between keeps it from them."""

_ZERO_WIDTH_SPACE = "&#8203;"

_MAX_NAME = 160

_MAX_REMARK = 400

_MAX_ENTRIES = 100

_INDENT = "    "

_HEADERS = ("outcome", "quantity", "base -> head", f"change [{100 * CONFIDENCE:g} %]", "p (Holm)")

_STYLES = {
    Outcome.REGRESSION: "bold red",
    Outcome.WORSE: "yellow",
    Outcome.IMPROVEMENT: "green",
    Outcome.BETTER: "green",
    Outcome.CHANGED: "cyan",
}

_MAX_LISTED = 10


def title(comparison: Comparison) -> str:
    """Return which two commits were compared, and how many launches each has."""
    return f"{_side(comparison.base)} -> {_side(comparison.head)}"


def _side(side: Side) -> str:
    commit = clean(side.commit)[:_COMMIT] if side.commit else ("no commit" if side.launches else "nothing")
    about = [clean(side.branch)] if side.branch else []
    about += ["dirty"] if side.dirty else []
    plural = "launch" if side.launches == 1 else "launches"
    return f"{commit} ({', '.join([*about, f'{side.launches} {plural}'])})"


def verdict(comparison: Comparison) -> str:
    """Return the one line that says what came out, the worst first."""
    if not comparison.base.checks or not comparison.head.checks:
        return "NO BASELINE" if comparison.head.checks else "NOTHING TO COMPARE"
    word = "REGRESSION" if comparison.having(Outcome.REGRESSION) else "NO REGRESSION"
    return f"{word}: {', '.join(_counts(comparison))}"


def _counts(comparison: Comparison) -> Iterator[str]:
    rows = Counter(row.outcome for row in comparison.rows)
    for outcome, (one, several) in _PLURALS.items():
        if rows[outcome]:
            yield f"{rows[outcome]} {one if rows[outcome] == 1 else several}"
    lists = (
        (comparison.added, "added"),
        (comparison.removed, "removed"),
        (comparison.renamed, "renamed"),
        (comparison.reversioned, "re-versioned"),
    )
    for listed, word in lists:
        if listed:
            yield f"{count(len(listed), 'test')} {word}"
    if not comparison.rows:
        yield "no series that both have"


def by_test(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the rows of each series together, in the order of the first of each."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.series, []).append(row)
    return list(found.values())


def name(row: Row | Listed | Renamed | Reversioned) -> str:
    """Return the test with the model and the engine, where it does not name them itself."""
    node = row.head_nodeid if isinstance(row, Renamed) else row.nodeid
    missing = [part for part in (row.model, row.engine_id) if part and part not in node]
    return clean(" ".join([node, *missing]))


def values(row: Row) -> str:
    """Return base and head in the row's unit."""
    told = f"{_value(row.base, row.unit)} -> {_value(row.head, row.unit)}"
    return f"{told} {clean(row.unit)}" if row.unit not in ("", "x") else told


def _value(value: float | str | None, unit: str) -> str:
    if value is None:
        return NOT_MEASURED
    if isinstance(value, str):
        return clean(value)
    return f"x{figure(value)}" if unit == "x" else in_unit(value, "%" if unit == "pp" else unit)


def change(row: Row) -> str:
    """Return the change with its sign, and its interval where there is one."""
    if row.change is None or row.outcome is Outcome.NO_BASELINE:
        return NOT_MEASURED if row.base != row.head else "0"
    told = _signed(row.change, row.change_unit)
    if row.interval is not None:
        told += f" [{_signed(row.interval.low, row.change_unit)}, {_signed(row.interval.high, row.change_unit)}]"
    return f"{told} {clean(row.change_unit)}".rstrip()


def _signed(value: float, unit: str) -> str:
    shown = in_unit(value, "%" if unit in ("%", "pp") else None)
    return f"+{shown}" if value > 0.0 else shown


def p_value(row: Row) -> str:
    """Return p after Holm, or that the change is a fact, or too few launches."""
    if row.advisory:
        return "advisory"
    shown = row.p if row.p_adjusted is None else row.p_adjusted
    return NOT_MEASURED if shown is None else figure(shown, 2)


def remarks(row: Row) -> Iterator[str]:
    """Yield what stands below a changed row: counts, which side moved, and notes."""
    if row.lost is not None and row.won is not None:
        yield f"{row.lost} lost, {row.won} won of {row.n} samples; p {figure(row.p, 2)} before Holm"
    if row.candidate_change_pct is not None:
        yield _paces(row)
    for note in row.notes:
        yield clean(note)


def differences(row: Row) -> Iterator[str]:
    """Yield what else differs between base and head, in one line; all rows of a series share it."""
    if row.differs:
        shown = [_difference(one) for one in row.differs[:_MAX_DIFFERENCES]]
        more = len(row.differs) - len(shown)
        yield f"differs: {'; '.join([*shown, f'and {more} more'] if more else shown)}"


def _paces(row: Row) -> str:
    sides = [("candidate", row.candidate_change_pct), ("reference", row.reference_change_pct)]
    told = ", ".join(f"{side} {_signed(pct, '%')} %" for side, pct in sides if pct is not None)
    moved = f"; moved: {row.moved}" if row.moved else ""
    launches = f"; {row.base_launches} -> {row.head_launches} launches"
    return f"p50 of {told}{moved}{launches}; {clean(row.machine)}"


def _difference(one: Difference) -> str:
    return f"{clean(one.name)} {_short(one.base)} -> {_short(one.head)}"


def _short(value: str | None) -> str:
    return "none" if value is None else shorten(clean(value), _MAX_VALUE)


def other_lists(comparison: Comparison) -> Iterator[tuple[str, list[str]]]:
    """Yield a heading and the entries of every list beside the rows, as far as it has any."""
    yield from _grouped("not compared, no baseline", comparison.having(Outcome.NO_BASELINE))
    yield from _grouped("inconclusive", comparison.having(Outcome.INCONCLUSIVE))
    lists = (
        ("added", [f"{name(one)}  {clean(one.status)}" for one in comparison.added]),
        ("removed", [f"{name(one)}  was {clean(one.status)}" for one in comparison.removed]),
        ("renamed", [f"{clean(one.base_nodeid)} -> {clean(one.head_nodeid)}" for one in comparison.renamed]),
        ("re-versioned, not compared", [_reversioned(one) for one in comparison.reversioned]),
    )
    yield from ((heading, entries) for heading, entries in lists if entries)


def _grouped(heading: str, rows: Iterable[Row]) -> Iterator[tuple[str, list[str]]]:
    """Many rows share one reason: each reason once, with the rows that have it."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        reason = clean("; ".join(row.notes)) or "it could not be measured"
        reasons.setdefault(reason, []).append(f"{name(row)}  {row.quantity} {values(row)}")
    for reason, entries in reasons.items():
        yield f"{heading}, {reason}", entries


def _reversioned(one: Reversioned) -> str:
    unit = f" {clean(one.unit)}" if one.unit else ""
    scores = f"{in_unit(one.base, one.unit)} -> {in_unit(one.head, one.unit)}{unit}"
    return f"{name(one)}  {clean(one.metric or 'no metric')} {scores}: other {one.what}"


def unchanged(comparison: Comparison) -> str:
    """Return ``7 unchanged: 3 size, 4 status``; empty when there are none."""
    rows = Counter(row.quantity for row in comparison.having(Outcome.UNCHANGED))
    if not rows:
        return ""
    return f"{rows.total()} unchanged: {', '.join(f'{number} {quantity}' for quantity, number in sorted(rows.items()))}"


def level(comparison: Comparison) -> str:
    """Return how the tests of the comparison were judged; empty when there was none."""
    if not comparison.family:
        return ""
    return f"{count(comparison.family, 'row')} tested together by Holm at {100.0 * comparison.alpha:g} %"


def comparison_markdown(comparison: Comparison) -> str:
    """Return the verdict, the changed rows, and the rest folded: less than 60 000 characters.

    Rows that do not fit are counted. Names cannot become markup, mentions or references.
    """
    head = [MARKER, f"**{verdict(comparison)}**", "", _plain(title(comparison)), ""]
    rest = [*_folded(comparison), *(f"{_plain(note)}\n" for note in comparison.notes)]
    if level(comparison):
        rest.append(level(comparison))
    budget = MAX_CHARACTERS - _size(head)
    # The rest may take half of what there is, and the table what the rest leaves.
    table = _fitting(list(_markdown_table(comparison.changed)), budget - min(_size(rest), budget // 2))
    return "\n".join([*head, *table, *_fitting(rest, budget - _size(table))]) + "\n"


def _size(blocks: Sequence[str]) -> int:
    return sum(len(block) + 1 for block in blocks)


def _fitting(blocks: Sequence[str], budget: int) -> list[str]:
    """Return the first blocks that fit, and how many do not."""
    kept: list[str] = []
    reserve = 80
    for number, block in enumerate(blocks):
        reserve_here = 0 if number == len(blocks) - 1 else reserve
        if _size(kept) + len(block) + 1 + reserve_here > budget:
            return [*kept, "", f"{len(blocks) - number} more are left out; `--json` has all of them"]
        kept.append(block)
    return kept


def _markdown_table(rows: Sequence[Row]) -> Iterator[str]:
    if not rows:
        return
    yield "| | test | quantity | base -> head | change | p (Holm) | about |\n|---|---|---|---|---|---|---|"
    for group in by_test(rows):
        for row in group:
            lines = [*remarks(row), *(differences(row) if row is group[0] else ())]
            about = "<br>".join(_plain(shorten(line, _MAX_REMARK)) for line in lines)
            cells = (shorten(name(row), _MAX_NAME), row.quantity, values(row), change(row), p_value(row))
            yield f"| {_mark(row)} | {' | '.join(map(_plain, cells))} | {about} |"


def _mark(row: Row) -> str:
    return f"**{row.outcome.value}**" if row.outcome is Outcome.REGRESSION else row.outcome.value


def _folded(comparison: Comparison) -> Iterator[str]:
    for heading, entries in other_lists(comparison):
        yield _details(f"{heading} ({len(entries)})", entries)
    if unchanged(comparison):
        rows = comparison.having(Outcome.UNCHANGED)
        yield _details(unchanged(comparison), [f"{name(row)}  {row.quantity} {values(row)}" for row in rows])


def _details(summary: str, entries: Sequence[str]) -> str:
    lines = [f"- {_plain(shorten(entry, _MAX_REMARK))}" for entry in entries[:_MAX_ENTRIES]]
    if len(entries) > _MAX_ENTRIES:
        lines.append(f"- and {len(entries) - _MAX_ENTRIES} more")
    shown = _plain(shorten(summary, _MAX_REMARK))
    return "\n".join(["", f"<details><summary>{shown}</summary>", "", *lines, "", "</details>"])


def _plain(text: str) -> str:
    """Return text that is shown as it is: entities for what Markdown reads, and no mention or reference in it."""
    return "".join(map(_shown, clean(text)))


def _shown(char: str) -> str:
    if char in _REFERENCES:
        return char + _ZERO_WIDTH_SPACE
    return f"&#{ord(char)};" if char in _MARKUP else char


def comparison_text(comparison: Comparison, width: int, color: bool = False) -> str:
    """Return the comparison as a dense table, changed rows first, without a newline at the end.

    What did not change is counted in one line. Nothing is cut: what does not fit into `width` cells goes on in the
    next line.

    Parameters
    ----------
    color : put ANSI colours around the outcomes.
    """
    lines = [*_wrap(title(comparison), width, ""), *_wrap(verdict(comparison), width, "")]
    lines += printed(_table(comparison.changed, width), color)
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
