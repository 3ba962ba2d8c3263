"""Percentiles and ratios of timings with their intervals, and Student's distribution."""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its two-sided interval, all in one unit."""

    value: float
    low: float
    high: float


def fewest_rounds(confidence: float) -> int:
    """Return the fewest values n whose range encloses their median with `confidence`: 1 - 2 (1/2)^n >= confidence.

    With fewer values no interval within their range reaches that confidence, and a bootstrap interval lies within it;
    6 at 95 % (Conover 1999, section 3.2).
    """
    return math.ceil(1.0 - math.log2(1.0 - confidence))


def percentile_bounds(
    samples: Sequence[float], percentile: float, *, confidence: float = 0.95, clusters: int | None = None
) -> tuple[float | None, float | None]:
    """Return one-sided lower and upper bounds of a percentile, each at `confidence`.

    The number of samples below the true percentile p is binomial(n, p / 100), so order statistics bound it
    whatever the distribution (Conover 1999, section 3.2). The upper bound is the smallest order statistic k with
    P(B <= k - 1) >= confidence; ``None`` where even the largest sample does not reach that, see `runs_needed`.
    The lower bound mirrors it.

    Samples of one cluster may all share one cause, as runs of a block do in a burst of load. Then only the clusters are
    independent: n is their number (the largest design effect of Kish 1965, section 5.4), and the bounds lie at the same
    shares of all samples. An effect that is estimated instead misses what no cluster has shown yet.

    Parameters
    ----------
    samples : any positive number of values, in any order.
    percentile : strictly between 0 and 100.
    confidence : of each bound, 0..1.
    clusters : number of independent ones, of about one size; ``None`` for independent samples.
    """
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    n = ordered.size if clusters is None else clusters
    below = binomial_cdf(n, percentile / 100.0)[:-1]  # P(B <= k - 1) at index k - 1, k = 1..n
    uppers, lowers = np.flatnonzero(below >= confidence), np.flatnonzero(1.0 - below >= confidence)
    return (
        float(ordered[int(lowers[-1]) * ordered.size // n]) if lowers.size else None,
        float(ordered[-(-(int(uppers[0]) + 1) * ordered.size // n) - 1]) if uppers.size else None,
    )


def runs_needed(percentile: float, confidence: float = 0.95, beyond: int = 0) -> int:
    """Return the fewest samples n that bound a percentile from above without their largest `beyond`.

    Without any that is 1 - (percentile / 100)^n >= confidence: at 95 % 29 for p90, 59 for p95 and 299 for p99.

    Parameters
    ----------
    percentile : strictly between 0 and 100.
    confidence : of the bound, 0..1.
    beyond : 0 or more, so that as many may be freaks.
    """
    share = percentile / 100.0

    def bounded(n: int) -> bool:
        """Whether more than `beyond` of n samples lie above the percentile with enough confidence."""
        few = math.fsum(math.comb(n, k) * (1.0 - share) ** k * share ** (n - k) for k in range(beyond + 1))
        return few <= 1.0 - confidence

    return find_first(bounded, math.ceil(math.log1p(-confidence) / math.log(share)))


def find_first(holds: Callable[[int], bool], first: int = 1) -> int:
    """Return the smallest number from `first` on for which `holds` does, as it does for all larger ones."""
    end = first
    while not holds(end):
        end *= 2
    return bisect.bisect_left(range(end), True, lo=first, key=holds)


def binomial_cdf(n: int, share: float) -> NDArray[np.float64]:
    """P(B <= k) for k = 0..n of a binomial(n, share), summed from logarithms so that large n does not overflow."""
    k = np.arange(n + 1)
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, n + 1)))))
    log_ways = log_factorial[n] - log_factorial - log_factorial[::-1]
    chances = np.exp(log_ways + k * math.log(share) + (n - k) * math.log1p(-share))
    return np.cumsum(chances, dtype=np.float64).clip(max=1.0)


def student_tails(t: float, freedom: float) -> float:
    """P(|T| > t) of Student's distribution, t >= 0: the regularized incomplete beta function (DLMF 8.17)."""
    if math.isinf(t):
        return 0.0
    square = t * t
    return incomplete_beta(freedom / (freedom + square), square / (freedom + square), freedom / 2.0, 0.5)


def student_quantile(confidence: float, freedom: float) -> float:
    """Return the t with P(|T| <= t) = `confidence`.

    Newton's method from the normal quantile, which lies below: the tail is convex there, so that each step nears
    the solution from the same side.
    """
    tail = 1.0 - confidence
    t = statistics.NormalDist().inv_cdf(0.5 + confidence / 2.0)
    log_peak = math.lgamma((freedom + 1.0) / 2.0) - math.lgamma(freedom / 2.0) - math.log(freedom * math.pi) / 2.0
    for _ in range(100):
        density = math.exp(log_peak - (freedom + 1.0) / 2.0 * math.log1p(t * t / freedom))
        step = (student_tails(t, freedom) - tail) / (2.0 * density)
        t += step
        if abs(step) <= 1e-12 * t:
            break
    return t


def incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """I_x(a, b); `rest` is 1 - x, given apart because it may be too small to survive the subtraction."""
    if x <= 0.0 or rest <= 0.0:
        return 0.0 if x <= 0.0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    if x < (a + 1.0) / (a + b + 2.0):
        return math.exp(log_front) * _fraction(x, a, b) / a
    return 1.0 - math.exp(log_front) * _fraction(rest, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Continued fraction DLMF 8.17.22, from the front by Lentz's method (1976, Applied Optics 15, 668-671)."""
    upper, lower = 1.0, 1.0 / _avoid_zero(1.0 - (a + b) * x / (a + 1.0))
    value = lower
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        for term in (even, odd):
            lower = 1.0 / _avoid_zero(1.0 + term * lower)
            upper = _avoid_zero(1.0 + term / upper)
            value *= lower * upper
        if abs(lower * upper - 1.0) < 1e-15:
            break
    return value


def _avoid_zero(value: float) -> float:
    return value if abs(value) > 1e-300 else 1e-300
