"""A comparison of two commits as a comment of a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_quant.history.compare import Comparison, Outcome, Row, Ruling
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
from pytest_quant.report.markdown import Table, details, document, entries, inline, plain
from pytest_quant.report.markdown import row as line_of
from pytest_quant.report.text import NOT_MEASURED

MARKER = "<!-- pytest-quant compare -->"
"""First line of every such comment: a job finds its earlier comment by it, and replaces it."""

_HEADS = ("", "test", "quantity", "base → head")

_MAX_NAME = 160

_MAX_NOTE = 2000


def comparison_markdown(comparison: Comparison, ruling: Ruling) -> str:
    """Return the verdict, the changed rows, and the rest folded: at most 60 000 characters.

    Rows that do not fit are counted. Names cannot become markup, mentions, references or links.
    """
    head = [MARKER, f"**{verdict(comparison, ruling)}**", ""]
    return document(head, list(unfolded(comparison)), list(folded(comparison)), "`--json`")


def unfolded(comparison: Comparison, *above: str) -> Iterator[Table]:
    """Yield what is seen at once: the commits below the paragraphs `above`, and what changed."""
    yield Table((), (), (*above, plain(title(comparison))))
    yield Table(_HEADS, tuple(_rows(comparison.changed)))


def _rows(rows: Sequence[Row]) -> Iterator[str]:
    for group in by_test(rows):
        for row in group:
            lines = [*remarks(row), *(differences(row) if row is group[0] else ())]
            # Below one another, for a pull request has no room for more columns.
            told = [f"**{inline(values(row).replace('->', '→'))}**", *map(inline, (*_changed(row), *lines))]
            yield line_of([_mark(row), inline(name(row), _MAX_NAME), inline(row.quantity), "<br>".join(told)])


def _changed(row: Row) -> Iterator[str]:
    """Yield the change and its p, where there is either."""
    found, p = change(row), p_value(row)
    if p != NOT_MEASURED:
        yield f"{found}, {p}" if row.advisory else f"{found}, p (Holm) {p}"
    elif found != NOT_MEASURED:
        yield found


def _mark(row: Row) -> str:
    return f"**{row.outcome.value}**" if row.outcome is Outcome.REGRESSION else row.outcome.value


def folded(comparison: Comparison) -> Iterator[str]:
    """Yield a folded block for every list beside the changed rows, and then what is to be known of all of them."""
    for heading, texts in other_lists(comparison):
        yield details(f"{heading} ({len(texts)})", entries(texts))
    if unchanged(comparison):
        rows = comparison.having(Outcome.UNCHANGED)
        yield details(unchanged(comparison), entries([f"{name(row)}  {row.quantity} {values(row)}" for row in rows]))
    for note in (*comparison.notes, level(comparison)):
        if note:
            yield f"\n{plain(note, _MAX_NOTE)}"
