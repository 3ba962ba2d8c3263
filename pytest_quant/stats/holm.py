"""Several tests judged together: Holm's adjustment of their p values."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values adjusted by Holm (1979), Scandinavian Journal of Statistics 6, 65-70, in the same order.

    Rejecting those at most alpha keeps the probability of one or more false rejections below alpha, whatever the
    dependence between the tests.
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted
