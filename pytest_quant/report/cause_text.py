"""Why a check fails: the cause and all that was asked, for every view, and the text of ``pytest-quant diagnose``."""

from __future__ import annotations

import math
import re

import click

from pytest_quant.printable import clean
from pytest_quant.record import Record
from pytest_quant.report.details import DetailSection, DetailTable, Pairs, changed_answers, drop_empty, first_rows
from pytest_quant.report.failure import broken_first, explained, headline
from pytest_quant.report.text import GAP, NOT_MEASURED, align, figure, first_of, shorten, wrap
from pytest_quant.result import Cause, RangeRow, Status

_AT = "products beside it"
_LEAST = 20
"""Characters that names keep in a narrow terminal."""


def cause_pairs(cause: Cause) -> Pairs:
    """Return what is wrong, and the figure without it."""
    return drop_empty(("cause", f"{cause.stage}, {cause.text}"), ("without it", cause.without))


def cause_section(cause: Cause) -> DetailSection:
    """Return what is wrong, and all that was asked: the ranges that fit least and the sites that cost most first."""
    steps = [(step.asked, _sqnr(step.sqnr_db)) for step in cause.steps]
    ranges = [
        (_names(row.nodes), _ends(row.engine), _ends(row.data), figure(row.factor or None, 3))
        for row in sorted(cause.ranges, key=_fit)
    ]
    sites = [
        (_names(row.nodes), row.kind, f"{row.regains_pct:.1f}", _sqnr(row.sqnr_db), figure(row.channel_ratio, 3))
        for row in sorted(cause.sites, key=lambda row: -row.regains_pct)
    ]
    n_off = sum(row.is_off for row in cause.ranges)
    about_ranges = f"Ranges of the engine and of evaluation samples, {n_off} of {len(ranges)} off"
    about_sites = (_AT, "what", "share %", "own dB", "channels")
    tables = (
        *first_rows("What was asked", ("rounded", "SQNR dB"), steps),
        *first_rows(about_ranges, (_AT, "engine", "samples", "times as wide"), ranges),
        *first_rows("Squared error that goes without one rounding", about_sites, sites),
    )
    return DetailSection("Cause", (cause_pairs(cause),), lines=cause.unseen, tables=tables)


def _fit(row: RangeRow) -> tuple[bool, float]:
    return not row.is_off, -abs(math.log(row.factor)) if row.factor > 0.0 else 0.0


def _names(nodes: tuple[str, ...]) -> str:
    return first_of(nodes, 2 if len(nodes) == 2 else 1) or "an input"


def _ends(ends: tuple[float, float]) -> str:
    return NOT_MEASURED if ends[0] == ends[1] else f"[{figure(ends[0], 3)}, {figure(ends[1], 3)}]"


def _sqnr(value: float | None) -> str:
    return "equal" if value is None else f"{value:.1f}"


def cause_text(record: Record, width: int) -> str:
    """Return why a check fails, or why that is not known, with ANSI colours.

    Parameters
    ----------
    record : of a check that was judged.
    width : of the terminal, in characters.
    """
    said = f"{record.nodeid}: {headline(record) or record.status.value}"
    paragraphs: list[list[str]] = []
    tables: list[DetailTable] = []
    if record.cause is None:
        said = f"{said}; {_why_none(record)}"
    else:
        section = cause_section(record.cause)
        paragraphs.append([f"{label}: {text}" for label, text in section.facts])
        paragraphs.append([*section.lines])
        tables = [*section.tables, *(changed_answers(record.accuracy) if record.accuracy else ())]
    hints = [f"- {hint.paste}: {hint.text}" if hint.paste else f"- {hint.text}" for hint in record.hints]
    paragraphs.append(["try:", *hints] if hints else [])
    first, *last = (_paragraph(texts, width) for texts in ([said], *paragraphs) if texts)
    shown = ("\n".join(_table(table, width)) for table in tables)
    return "\n\n".join([first, *last[:1], *shown, *last[1:]])


def _paragraph(texts: list[str], width: int) -> str:
    lines = [line for text in texts for line in wrap(clean(text), width)]
    return "\n".join(re.sub("^(cause|try):", click.style(r"\g<0>", fg="yellow", bold=True), line) for line in lines)


def _why_none(record: Record) -> str:
    """Return why a check has no cause, in a sentence."""
    if record.status is Status.PASS:
        return "every limit holds, so there is no cause to search for"
    if explained(record) is None:
        limits = ", ".join(verdict.limit for verdict in broken_first(record))
        return f"no limit on the outputs is broken, and only such a limit has a cause; not passed: {limits}"
    why = f"the roundings of {record.engine_id} cannot be left out one by one, or the time was too short"
    return f"no cause is known: {why}"


def _table(table: DetailTable, width: int) -> list[str]:
    """Return the lines of a table; what is too wide loses the middle of its first column."""
    rows = [[clean(text) for text in row] for row in (table.heads, *table.rows)]
    others = sum(len(GAP) + max(map(len, texts)) for texts in [*zip(*rows, strict=True)][1:])
    room = max(_LEAST, width - others)
    lines = align([[shorten(first, room), *rest] for first, *rest in rows], right=range(1, len(table.heads)))
    more = [f"and {table.left_out} more; --json prints all of them"] if table.left_out else []
    return [f"{table.caption}:", *lines, *more]
