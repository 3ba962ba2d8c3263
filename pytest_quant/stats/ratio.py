"""The ratio of two engines that were timed in the same rounds, with its bootstrap interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its two-sided interval, all in one unit."""

    value: float
    low: float
    high: float


def paired_ratio(
    numerator: Sequence[float], denominator: Sequence[float], *, confidence: float = 0.95, seed: int = 0
) -> Estimate:
    """Estimate numerator / denominator from one positive pair per round.

    The estimate is exp of the median over rounds of log(numerator / denominator); the interval is the percentile
    bootstrap over rounds (Efron and Tibshirani 1993, chapter 13), so that what both share in a round cancels.
    """
    logs = np.log(np.asarray(numerator, dtype=np.float64) / np.asarray(denominator, dtype=np.float64))
    found = _bootstrap_median(logs, confidence, seed)
    return Estimate(*(float(np.exp(value)) for value in (found.value, found.low, found.high)))


def median_interval(values: Sequence[float], *, confidence: float = 0.95, seed: int = 0) -> Estimate:
    """Estimate the median of `values`, one per round, with its percentile bootstrap interval."""
    return _bootstrap_median(np.asarray(values, dtype=np.float64), confidence, seed)


def fewest_rounds(confidence: float) -> int:
    """Return the fewest values n whose range encloses their median with `confidence`: 1 - 2 (1/2)^n >= confidence.

    No interval within the range of fewer values reaches it, the bootstrap's least of all; 6 at 95 %
    (Conover 1999, section 3.2).
    """
    return math.ceil(1.0 - math.log2(1.0 - confidence))


def _bootstrap_median(values: NDArray[np.float64], confidence: float, seed: int) -> Estimate:
    rounds = np.random.default_rng(seed).integers(0, values.size, size=(RESAMPLES, values.size))
    medians = np.median(values[rounds], axis=1)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(medians, [tail, 1.0 - tail])
    return Estimate(float(np.median(values)), float(low), float(high))
