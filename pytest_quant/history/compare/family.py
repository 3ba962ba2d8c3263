"""All tests of one comparison together, so that many tests do not make a false alarm likely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_quant.history.compare.comparison import Row


@dataclass(frozen=True, slots=True)
class Draft:
    """A row as it stands unless its test, the row's `p`, is rejected, and as it is then; ``None``: the same."""

    row: Row
    if_rejected: Row | None = None


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values adjusted by Holm (1979), Scandinavian Journal of Statistics 6, 65-70, in the same order.

    Rejecting those at most alpha keeps the chance of one false rejection or more below alpha, whatever the
    dependence between the tests.
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def judge(drafts: Sequence[Draft], alpha: float) -> list[Row]:
    """Return the rows, those whose adjusted p is at most `alpha` as a rejection makes them."""
    tested = [(index, draft.row.p) for index, draft in enumerate(drafts) if draft.row.p is not None]
    adjusted = dict(zip((index for index, _ in tested), holm([p for _, p in tested]), strict=True))
    return [_judged(draft, adjusted.get(index), alpha) for index, draft in enumerate(drafts)]


def _judged(draft: Draft, adjusted: float | None, alpha: float) -> Row:
    rejected = adjusted is not None and adjusted <= alpha
    chosen = draft.if_rejected if rejected and draft.if_rejected is not None else draft.row
    return replace(chosen, p_adjusted=adjusted)
