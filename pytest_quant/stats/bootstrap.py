"""Paired bootstrap of the difference of two scores: the same samples are drawn for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
COSTLY_RESAMPLES = 400
"""For scores that a third party computes over all samples at every call."""

_SEED = 20260101

Array = NDArray[Any]


def paired_bootstrap(
    reference: Array,
    candidate: Array,
    aggregate: Callable[[Array], float],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> tuple[float, float] | None:
    """Percentile interval of aggregate(reference) - aggregate(candidate); ``None`` for fewer than two samples.

    Parameters
    ----------
    reference, candidate : statistics of the same samples in the same order, (n,) or (n, k).

    The samples are drawn with a fixed seed, so that equal data give an equal interval.
    """
    n = len(reference)
    if n < 2:
        return None
    random = np.random.default_rng(_SEED)
    differences = np.empty(resamples)
    for i in range(resamples):
        drawn = random.integers(0, n, size=n)
        differences[i] = aggregate(reference[drawn]) - aggregate(candidate[drawn])
    finite = differences[np.isfinite(differences)]
    if finite.size == 0:
        return None
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(finite, [tail, 1.0 - tail])
    return float(low), float(high)
