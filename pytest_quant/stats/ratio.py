"""Percentiles with distribution-free bounds, and the ratio of two interleaved timings with its bootstrap interval."""

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

    Parameters
    ----------
    numerator, denominator : positive values of the same rounds, in one unit and of equal length.
    confidence : of the two-sided interval, 0..1.
    seed : of the bootstrap.
    """
    logs = np.log(np.asarray(numerator, dtype=np.float64) / np.asarray(denominator, dtype=np.float64))
    log_ratio = _bootstrap_median(logs, confidence, seed)
    return Estimate(*(float(np.exp(value)) for value in (log_ratio.value, log_ratio.low, log_ratio.high)))


def median_interval(values: Sequence[float], *, confidence: float = 0.95, seed: int = 0) -> Estimate:
    """Estimate a median with its percentile bootstrap interval.

    Parameters
    ----------
    values : one for each round; the estimate has their unit.
    confidence : of the two-sided interval, 0..1.
    seed : of the bootstrap.
    """
    return _bootstrap_median(np.asarray(values, dtype=np.float64), confidence, seed)


def fewest_rounds(confidence: float) -> int:
    """Return the fewest values n whose range encloses their median with `confidence`: 1 - 2 (1/2)^n >= confidence.

    With fewer values no interval within their range reaches that confidence, and a bootstrap interval lies within it;
    6 at 95 % (Conover 1999, section 3.2).
    """
    return math.ceil(1.0 - math.log2(1.0 - confidence))


def _bootstrap_median(values: NDArray[np.float64], confidence: float, seed: int) -> Estimate:
    rounds = np.random.default_rng(seed).integers(0, values.size, size=(RESAMPLES, values.size))
    medians = np.median(values[rounds], axis=1)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(medians, [tail, 1.0 - tail])
    return Estimate(float(np.median(values)), float(low), float(high))


def percentile_bounds(
    samples: Sequence[float], percentile: float, *, confidence: float = 0.95
) -> tuple[float | None, float | None]:
    """Return one-sided lower and upper bounds of a percentile, each at `confidence`.

    The number of samples below the true percentile p is binomial(n, p / 100), so order statistics bound it
    whatever the distribution (Conover 1999, section 3.2). The upper bound is the smallest order statistic k with
    P(B <= k - 1) >= confidence; ``None`` where even the largest sample does not reach that, see `runs_needed`.
    The lower bound mirrors it.

    Parameters
    ----------
    samples : any positive number of values, in any order.
    percentile : strictly between 0 and 100.
    confidence : of each bound, 0..1.
    """
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    below = _binomial_cdf(ordered.size, percentile / 100.0)[:-1]  # P(B <= k - 1) at index k - 1, k = 1..n
    uppers, lowers = np.flatnonzero(below >= confidence), np.flatnonzero(1.0 - below >= confidence)
    return (
        float(ordered[lowers[-1]]) if lowers.size else None,
        float(ordered[uppers[0]]) if uppers.size else None,
    )


def runs_needed(percentile: float, confidence: float = 0.95) -> int:
    """Return the fewest samples n that bound a percentile from above: 1 - (percentile / 100)^n >= confidence.

    At 95 % that is 29 for p90, 59 for p95 and 299 for p99.
    """
    return math.ceil(math.log1p(-confidence) / math.log(percentile / 100.0))


def _binomial_cdf(n: int, share: float) -> NDArray[np.float64]:
    """P(B <= k) for k = 0..n of a binomial(n, share), summed from logarithms so that large n does not overflow."""
    k = np.arange(n + 1)
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, n + 1)))))
    log_ways = log_factorial[n] - log_factorial - log_factorial[::-1]
    chances = np.exp(log_ways + k * math.log(share) + (n - k) * math.log1p(-share))
    return np.cumsum(chances, dtype=np.float64).clip(max=1.0)
