"""Base against head, in the words of the comparison's other forms, changed rows first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_quant.history.compare import Comparison, Outcome, Row, Ruling
from pytest_quant.report import comparison as words
from pytest_quant.report.page.content import ComparisonView, DifferenceView


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """A comparison that was made.

    Attributes
    ----------
    about : lines that name base and head, and where their records are from.
    """

    comparison: Comparison
    ruling: Ruling
    about: tuple[str, ...] = ()


def comparison_view(compared: ComparedRuns) -> ComparisonView:
    """Return what the page of the comparison shows."""
    comparison, ruling = compared.comparison, compared.ruling
    same = comparison.having(Outcome.UNCHANGED)
    level = words.level(comparison)
    return ComparisonView(
        word=ruling.word.value,
        verdict=words.verdict(comparison, ruling),
        about=(words.title(comparison), *compared.about),
        rows=tuple(_changed(comparison.changed)),
        lists=tuple((heading, tuple(entries)) for heading, entries in words.other_lists(comparison)),
        unchanged=(words.unchanged(comparison), tuple(map(_view, same))),
        notes=(*comparison.notes, *([level] if level else [])),
    )


def _changed(rows: Sequence[Row]) -> Iterator[DifferenceView]:
    """Yield the rows, those of one test together; what else differs is told with the first of them."""
    for group in words.by_test(rows):
        for row in group:
            differs = words.differences(row) if row is group[0] else ()
            yield _view(row, (*words.remarks(row), *differs))


def _view(row: Row, remarks: tuple[str, ...] = ()) -> DifferenceView:
    return DifferenceView(
        test=words.name(row),
        outcome=row.outcome.value,
        quantity=row.quantity,
        values=words.values(row),
        change=words.change(row),
        p=words.p_value(row),
        remarks=remarks,
    )
