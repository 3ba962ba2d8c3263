"""Base against head, in the words of the comparison's other forms, changed rows first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_quant.history.compare import Comparison, Outcome, Row, Ruling
from pytest_quant.report import comparison as words
from pytest_quant.report.page.blocks import placed
from pytest_quant.report.page.content import ComparisonView, DifferenceView, Figure, Piece


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
    places = {id(row): number for number, row in enumerate(comparison.rows)}
    same = comparison.having(Outcome.UNCHANGED)
    level = words.level(comparison)
    return ComparisonView(
        word=ruling.word.value,
        verdict=words.verdict(comparison, ruling),
        about=(words.title(comparison), *compared.about),
        rows=tuple(_changed(comparison.changed, places)),
        lists=tuple((heading, tuple(entries)) for heading, entries in words.other_lists(comparison)),
        unchanged=(words.unchanged(comparison), tuple(_view(row, places[id(row)]) for row in same)),
        notes=(*comparison.notes, *([level] if level else [])),
    )


def _changed(rows: Sequence[Row], places: Mapping[int, int]) -> Iterator[DifferenceView]:
    """Yield the rows, those of one test together; what else differs is told with the first of them."""
    for group in words.by_test(rows):
        for row in group:
            differs = words.differences(row) if row is group[0] else ()
            yield _view(row, places[id(row)], (*words.remarks(row), *differs))


def _view(row: Row, number: int, remarks: tuple[str, ...] = ()) -> DifferenceView:
    adjusted = row.p_adjusted is not None
    value = row.p_adjusted if adjusted else row.p
    p: Piece = words.p_value(row)
    if value is not None and not row.advisory:
        p = Figure(words.p_value(row), value, "p_adjusted" if adjusted else "p")
    return DifferenceView(
        number=number,
        test=words.name(row),
        outcome=row.outcome.value,
        quantity=row.quantity,
        values=placed(words.value_pieces(row), _sides(row)),
        change=placed(words.change_pieces(row), ("change", "interval/0", "interval/1")),
        p=p,
        remarks=remarks,
    )


def _sides(row: Row) -> tuple[str, ...]:
    """Return the places of those of base and head that are figures."""
    return tuple(side for side in ("base", "head") if isinstance(getattr(row, side), (int, float)))
