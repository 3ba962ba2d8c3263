"""A comparison of two commits as a comment of a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_quant.history.compare import Comparison, Outcome, Row, Ruling
from pytest_quant.printable import clean
from pytest_quant.report.comparison import (
    by_test,
    change,
    differences,
    level,
    name,
    newly_flaky,
    other_lists,
    p_value,
    remarks,
    title,
    unchanged,
    values,
    verdict,
)
from pytest_quant.report.text import shorten

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

_MAX_FLAKY = 20


def comparison_markdown(comparison: Comparison, ruling: Ruling) -> str:
    """Return the verdict, the changed rows, and the rest folded: less than 60 000 characters.

    Rows that do not fit are counted. Names cannot become markup, mentions or references.
    """
    head = [MARKER, f"**{verdict(comparison, ruling)}**", "", _plain(title(comparison)), ""]
    if comparison.flaky:
        entries = _entries(list(newly_flaky(comparison)), _MAX_FLAKY)
        head += [f"**NEWLY FLAKY ({len(comparison.flaky)})**", "", *entries, ""]
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
    shown = _plain(shorten(summary, _MAX_REMARK))
    return "\n".join(["", f"<details><summary>{shown}</summary>", "", *_entries(entries), "", "</details>"])


def _entries(entries: Sequence[str], most: int = _MAX_ENTRIES) -> list[str]:
    lines = [f"- {_plain(shorten(entry, _MAX_REMARK))}" for entry in entries[:most]]
    return [*lines, f"- and {len(entries) - most} more"] if len(entries) > most else lines


def _plain(text: str) -> str:
    """Return text that is shown as it is: entities for what Markdown reads, and no mention or reference in it."""
    return "".join(map(_shown, clean(text)))


def _shown(char: str) -> str:
    if char in _REFERENCES:
        return char + _ZERO_WIDTH_SPACE
    return f"&#{ord(char)};" if char in _MARKUP else char
