"""Paired bootstrap of the difference of two scores: the same samples are drawn for both."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES, SAMPLES = 2000, 20_000
COSTLY_RESAMPLES, COSTLY_SAMPLES = 400, 5_000
"""For scores that a third party computes over all samples at every call."""

_SEED = 20260101
_MOST_UNDEFINED = 0.05

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Resampled:
    """Ends of the interval of the difference, and the variance of one sample's share in it, in the squared unit."""

    low: float
    high: float
    variance: float


def paired_bootstrap(
    reference: Array,
    candidate: Array,
    aggregate: Callable[[Array], float],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    most_samples: int = SAMPLES,
) -> Resampled | None:
    """Percentile interval of aggregate(reference) - aggregate(candidate).

    Parameters
    ----------
    reference, candidate : statistics of the same samples in the same order, n rows.
    aggregate : a score of any samples; a `ValueError` or `RuntimeError` tells that it is undefined for these.
    most_samples : with more, each resample draws only so many of them (m) and its distance from the estimate is
        scaled by sqrt(m / n), the m out of n bootstrap (Bickel, Goetze and van Zwet 1997, Statistica Sinica 7, 1-31):
        time and memory stay bounded.

    Returns
    -------
    ``None`` for fewer than two samples, or when more than 5 % of the resamples have no finite score.

    The samples are drawn with a fixed seed, so that equal data give an equal interval.
    """
    n = len(reference)
    if n < 2:
        return None
    drawn_samples = min(n, most_samples)
    random = np.random.default_rng(_SEED)
    differences = np.empty(resamples)
    for i in range(resamples):
        drawn = random.integers(0, n, size=drawn_samples)
        differences[i] = _difference(reference[drawn], candidate[drawn], aggregate)
    differences = differences[np.isfinite(differences)]
    if differences.size < (1.0 - _MOST_UNDEFINED) * resamples:
        return None
    tail = (1.0 - confidence) / 2.0
    low, high = (float(end) for end in np.quantile(differences, [tail, 1.0 - tail]))
    if drawn_samples < n:
        estimate = aggregate(reference) - aggregate(candidate)
        shrink = math.sqrt(drawn_samples / n)
        low, high = (estimate + shrink * (end - estimate) for end in (low, high))
    return Resampled(low, high, drawn_samples * float(np.var(differences)))


def _difference(reference: Array, candidate: Array, aggregate: Callable[[Array], float]) -> float:
    try:
        return aggregate(reference) - aggregate(candidate)
    except (ValueError, RuntimeError):
        return math.nan
