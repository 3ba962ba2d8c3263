"""A comparison of two commits: words and figures that page and comment share, a dense table of it, and its JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import click
from rich.cells import cell_len

from pytest_quant.history.compare.comparison import CONFIDENCE, Comparison, Difference, Listed, Outcome, Row, Side, Word
from pytest_quant.history.rows import group_items
from pytest_quant.host import quote
from pytest_quant.printable import clean
from pytest_quant.record import Json, Record
from pytest_quant.record.record import plain
from pytest_quant.report.text import GAP, NOT_MEASURED, align, count, figure, format_in_unit, shorten, wrap
from pytest_quant.spec import SeriesKey

_INDENT = "    "
_STYLES: Mapping[Outcome, Mapping[str, Any]] = {
    Outcome.REGRESSION: {"fg": "red", "bold": True},
    Outcome.ACCEPTED: {"fg": "yellow"},
    Outcome.WORSE: {"fg": "yellow"},
    Outcome.IMPROVEMENT: {"fg": "green"},
    Outcome.BETTER: {"fg": "green"},
    Outcome.CHANGED: {"fg": "cyan"},
}
_MAX_LISTED = 10
_PLURALS = {
    Outcome.ACCEPTED: ("accepted change", "accepted changes"),
    Outcome.WORSE: ("worse (not a failure)",) * 2,
    Outcome.IMPROVEMENT: ("improvement", "improvements"),
    Outcome.BETTER: ("better (not significant)",) * 2,
    Outcome.CHANGED: ("neutral change", "neutral changes"),
    Outcome.INCONCLUSIVE: ("inconclusive",) * 2,
    Outcome.NO_BASELINE: ("without a baseline",) * 2,
    Outcome.UNCHANGED: ("unchanged",) * 2,
}


def title(comparison: Comparison) -> str:
    """Return which two commits were compared, and how many runs of pytest each has."""
    return f"{_side(comparison.base)} -> {_side(comparison.head)}"


def _side(side: Side) -> str:
    commit = clean(side.commit)[:12] if side.commit else ("no commit" if side.runs else "nothing")
    about = [clean(side.branch)] if side.branch else []
    about += ["dirty"] if side.dirty else []
    return f"{commit} ({', '.join([*about, count(side.runs, 'run')])})"


def verdict(comparison: Comparison) -> str:
    """Return the one line that says what came out, the worst first; its first word stands for the exit code."""
    both = comparison.base.checks and comparison.head.checks
    counts = ", ".join(_counts(comparison) if both else _lost_counts(comparison))
    word = comparison.verdict.value.replace("_", " ").upper() if comparison.verdict is not Word.OK else "NO REGRESSION"
    return ": ".join([word, "; ".join(filter(None, (_describe_unreported(comparison), counts)))]).removesuffix(": ")


def _lost(comparison: Comparison) -> dict[str, list[Listed]]:
    """Return the tests of the base without a record at the head, by what became of them, regressions first."""
    missing = set(comparison.missing)

    def fate(listed: Listed) -> str:
        if listed.skipped or listed.uncollected:
            return "skipped here" if listed.skipped else "not collected"
        other = "not run here" if comparison.head.partial else "removed (ignored)"
        return "removed" if listed in missing else "removed (accepted)" if listed.accepted else other

    return group_items(sorted(comparison.removed, key=lambda listed: listed not in missing), fate)


def _lost_counts(comparison: Comparison) -> Iterator[str]:
    yield from (f"{count(len(tests), 'test')} {fate}" for fate, tests in _lost(comparison).items())


def _describe_unreported(comparison: Comparison) -> str:
    """Return which shards never reported, and how many tests with them; empty if all reported."""
    found = comparison.unreported
    shards = f"shard{'s' * (len(found.shards) > 1)} {', '.join(found.shards)}" if found.shards else ""
    tests = count(len(found.tests), "test") if found.tests else ""
    return f"{' and '.join(filter(None, (shards, tests)))} never reported" if found else ""


def _counts(comparison: Comparison) -> Iterator[str]:
    rows = Counter(row.outcome for row in comparison.rows)
    if rows[Outcome.REGRESSION]:
        yield count(rows[Outcome.REGRESSION], "regression")
    yield from _lost_counts(comparison)
    for outcome, (singular, plural) in _PLURALS.items():
        if rows[outcome]:
            yield f"{rows[outcome]} {singular if rows[outcome] == 1 else plural}"
    lists = ((len(comparison.added), _added(comparison)), (len(comparison.renamed), "renamed"))
    yield from (f"{count(number, 'test')} {after}" for number, after in lists if number)
    if not comparison.rows:
        yield "no series that both have"


def _added(comparison: Comparison) -> str:
    return "without a record in the base" if comparison.base.partial else "added"


def fault(comparison: Comparison) -> str:
    """Return why a comparison lets a run fail; empty if it does not."""
    worse = len(comparison.select_rows(Outcome.REGRESSION))
    reasons = [_describe_unreported(comparison)] if comparison.unreported else []
    reasons += [f"{worse} of {len(comparison.rows)} rows regressed"] if worse else []
    if gone := _lost(comparison).get("removed"):
        command = f"pytest-quant accept --removed --reason WHY --series {quote(SeriesKey.parse(gone[0].series).test)}"
        reasons.append(f"{count(len(gone), 'test')} of the base gone; if that is meant, for each: {clean(command)}")
    errors = dict.fromkeys(clean(listed.uncollected) for listed in comparison.missing if listed.uncollected)
    reasons += [f"not collected: {error}" for error in errors]
    if not reasons and comparison.exit_code:
        reasons = ["not everything could be compared, and --quant-strict is set"]
    return "; ".join(reasons)


def group_by_test(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the rows of each series together, in the order of the first of each."""
    return list(group_items(rows, lambda row: row.series).values())


def name(row: Row | Listed | Record) -> str:
    """Return the test with the model and the engine, unless it names them itself."""
    missing = [part for part in (row.model, row.engine_id) if part and part not in row.nodeid]
    return clean(" ".join([row.nodeid, *missing]))


def values(row: Row) -> str:
    """Return base and head in the row's unit; ``-`` if neither was measured."""
    if row.base is None and row.head is None:
        return NOT_MEASURED
    unit = f" {clean(row.unit)}" if row.unit not in ("", "x") else ""
    return f"{_value(row.base, row.unit)} -> {_value(row.head, row.unit)}{unit}"


def _value(value: float | str | None, unit: str) -> str:
    if value is None:
        return NOT_MEASURED
    if isinstance(value, str):
        return clean(value)
    return f"x{figure(value)}" if unit == "x" else format_in_unit(value, "%" if unit == "pp" else unit)


def change(row: Row) -> str:
    """Return the change with its sign, and its interval if there is one."""
    if row.change is None or row.outcome is Outcome.NO_BASELINE:
        return "0" if row.base == row.head is not None else NOT_MEASURED
    unit, span = row.change_unit, row.interval
    interval = "" if span is None else f" [{_format_signed(span.low, unit)}, {_format_signed(span.high, unit)}]"
    return f"{_format_signed(row.change, unit)}{interval} {clean(unit)}".rstrip()


def _format_signed(value: float, unit: str) -> str:
    shown = format_in_unit(value, "%" if unit in ("%", "pp") else None)
    return f"+{shown}" if value > 0.0 else shown


def remarks(row: Row) -> Iterator[str]:
    """Yield what stands below a changed row: counts, which side moved, and notes."""
    if row.lost is not None and row.won is not None:
        yield f"{row.lost} lost, {row.won} won of {row.n} samples"
    if row.candidate_change_pct is not None:
        sides = [("candidate", row.candidate_change_pct), ("reference", row.reference_change_pct)]
        paces = ", ".join(f"{side} {_format_signed(pct, '%')} %" for side, pct in sides if pct is not None)
        moved = f"; moved: {row.moved}" if row.moved else ""
        yield f"p50 of {paces}{moved}; {row.base_launches} -> {row.head_launches} launches; {clean(row.machine)}"
    yield from map(clean, row.notes)


def differences(row: Row) -> Iterator[str]:
    """Yield what else differs between base and head, in one line; all rows of a series share it."""
    if row.differs:
        yield f"differs: {describe_differences(row.differs)}"


def describe_differences(differs: Sequence[Difference]) -> str:
    """Return what differs, in one line; empty if nothing does."""
    shown = [_difference(difference) for difference in differs[:8]]
    more = len(differs) - len(shown)
    return "; ".join([*shown, f"and {more} more"] if more else shown)


_MOST_OF_VALUE = 24
_FILES = {"model": "model file", "quantized model": "quantized model file", "data": "evaluation data"}


def _difference(difference: Difference) -> str:
    if difference.digest_of:
        missing = " and ".join(
            side for side, value in (("base", difference.base), ("head", difference.head)) if value is None
        )
        wording = f"not recorded at the {missing}" if missing else "changed"
        return f"{clean(_FILES.get(difference.digest_of, difference.digest_of))} {wording}"
    both = ["none" if value is None else clean(value) for value in (difference.base, difference.head)]
    base, head = (shorten(value, _MOST_OF_VALUE) for value in both)
    if base == head:  # they differ in what is left out
        apart = (at for at, char in enumerate(both[0]) if char != both[1][at : at + 1])
        same = next(apart, len(both[0]))
        base, head = (f"... {shorten(value[max(0, same - 8) :], _MOST_OF_VALUE)}" for value in both)
    return f"{clean(difference.name)} {base} -> {head}"


def list_others(comparison: Comparison) -> Iterator[tuple[str, list[str]]]:
    """Yield a heading and the entries of every list beside the rows, as far as it has any."""
    yield from _group_by_reason("NOT COMPARED, no baseline", comparison.select_rows(Outcome.NO_BASELINE))
    yield from _group_by_reason("inconclusive", comparison.select_rows(Outcome.INCONCLUSIVE))
    lists = (
        ("never reported", list(map(clean, comparison.unreported.tests))),
        (_added(comparison), [f"{name(listed)}  {clean(listed.status)}" for listed in comparison.added]),
        *((fate.partition(" (")[0], list(map(_last, tests))) for fate, tests in _lost(comparison).items()),
        ("renamed", [f"{clean(listed.base_nodeid)} -> {clean(listed.nodeid)}" for listed in comparison.renamed]),
    )
    yield from ((heading, entries) for heading, entries in lists if entries)


def _last(listed: Listed) -> str:
    """Return a test without a record at the head, its last status, and why it has none."""
    why = filter(None, (listed.skipped, listed.uncollected, listed.accepted))
    return ": ".join([f"{name(listed)}  was {clean(listed.status)}", *map(clean, why)])


def _group_by_reason(heading: str, rows: Iterable[Row]) -> Iterator[tuple[str, list[str]]]:
    """Many rows share one reason: each reason once, with the rows that have it."""
    for reason, alike in group_items(
        rows, lambda row: clean("; ".join(row.notes)) or "it could not be measured"
    ).items():
        yield f"{heading}, {reason}", [f"{name(row)}  {row.quantity} {values(row)}" for row in alike]


def count_unchanged(comparison: Comparison) -> str:
    """Return ``7 unchanged: 3 size, 4 status``; empty when there are none."""
    rows = Counter(row.quantity for row in comparison.select_rows(Outcome.UNCHANGED))
    if not rows:
        return ""
    return f"{rows.total()} unchanged: {', '.join(f'{number} {quantity}' for quantity, number in sorted(rows.items()))}"


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
    lines = [*wrap(title(comparison), width), *wrap(verdict(comparison), width)]
    lines += _table(comparison.changed if rows is None else rows, width, color)
    for heading, entries in list_others(comparison):
        lines += wrap(f"{heading} ({len(entries)}):", width)
        for entry in entries[:_MAX_LISTED]:
            lines += wrap(entry, width, _INDENT)
        if len(entries) > _MAX_LISTED:
            lines.append(f"{_INDENT}and {len(entries) - _MAX_LISTED} more; --json has all of them")
    for line in (*comparison.notes, count_unchanged(comparison)):
        lines += wrap(line, width)
    return "\n".join(lines)


def _table(rows: Sequence[Row], width: int, color: bool) -> Iterator[str]:
    if not rows:
        return
    heads = ["outcome", "quantity", "base -> head", f"change [{100 * CONFIDENCE:g} %]"]
    cells = [[row.outcome.value, row.quantity, values(row), change(row)] for row in rows]
    head, *lines = [GAP + line for line in align([heads, *cells])]
    yield from _fit_line(head, width)
    yield "-" * min(width, max(map(cell_len, (head, *lines))))
    line_of = {id(row): line for row, line in zip(rows, lines, strict=True)}
    for group in group_by_test(rows):
        yield from wrap(name(group[0]), width)
        for row in group:
            styled = click.style(row.outcome.value, **_STYLES.get(row.outcome, {})) if color else row.outcome.value
            yield from (line.replace(row.outcome.value, styled, 1) for line in _fit_line(line_of[id(row)], width))
            for remark in remarks(row):
                yield from wrap(remark, width, _INDENT)
        for line in differences(group[0]):
            yield from wrap(line, width, GAP)


def _fit_line(line: str, width: int) -> list[str]:
    """Return a line of the table, broken between words if it has no room."""
    return [line] if cell_len(line) <= width else wrap(" ".join(line.split()), width, GAP)


def comparison_json(comparison: Comparison) -> dict[str, Json]:
    """Return the comparison as one document of plain JSON types; ``comparison_schema.json`` describes it."""
    word, exit_code = comparison.verdict.value, comparison.exit_code
    about: dict[str, Json] = {"schema": 1, "verdict": word, "exit_code": exit_code, "confidence": CONFIDENCE}
    return about | cast(dict[str, Json], plain(comparison, "comparison"))
