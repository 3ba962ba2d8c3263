"""Several tests judged together: Holm's adjustment of their p values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values adjusted by Holm (1979), Scandinavian Journal of Statistics 6, 65-70, in the same order.

    Rejecting those at most alpha keeps the probability of one or more false rejections below alpha, whatever the
    dependence between the tests.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    steps = (min(1.0, (len(order) - rank) * p_values[index]) for rank, index in enumerate(order))
    return [adjusted for _, adjusted in sorted(zip(order, accumulate(steps, max), strict=True))]
