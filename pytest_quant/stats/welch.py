"""Two groups of numbers with unequal spreads: Welch's test and interval of the difference of their means."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_PRECISION = 1e-15
_TINY = 1e-300
_MOST_TERMS = 10_000
_MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """mean(second) - mean(first), its two-sided interval in the same unit, and the two-sided p of equal means."""

    value: float
    low: float
    high: float
    p_value: float


def welch(first: Sequence[float], second: Sequence[float], *, confidence: float = 0.95) -> MeanDifference:
    """Compare the means of two independent groups of at least two numbers each.

    The statistic is Welch's (1947, Biometrika 34, 28-35), its degrees of freedom those of Satterthwaite (1946).
    Two groups without any spread differ with p = 0, or are equal with p = 1.

    Parameters
    ----------
    first, second : at least two numbers each, in one unit.
    confidence : of the two-sided interval, 0..1.
    """
    value = statistics.mean(second) - statistics.mean(first)
    variances = [statistics.variance(group) / len(group) for group in (first, second)]
    error = math.sqrt(sum(variances))
    if error == 0.0:
        return MeanDifference(value, value, value, 1.0 if value == 0.0 else 0.0)
    # Shares of the sum, because squares of small variances would leave the range of a float.
    shares = (variance / sum(variances) for variance in variances)
    freedom = 1.0 / sum(share**2 / (len(group) - 1) for share, group in zip(shares, (first, second), strict=True))
    reach = error * student_quantile(confidence, freedom)
    return MeanDifference(value, value - reach, value + reach, student_tails(abs(value) / error, freedom))


def student_tails(t: float, freedom: float) -> float:
    """P(|T| > t) of Student's distribution, t >= 0: the regularized incomplete beta function (DLMF 8.17)."""
    if math.isinf(t):
        return 0.0
    square = t * t
    return _incomplete_beta(freedom / (freedom + square), square / (freedom + square), freedom / 2.0, 0.5)


def student_quantile(confidence: float, freedom: float) -> float:
    """Return the t with P(|T| <= t) = `confidence`.

    Newton's method from the normal quantile, which lies below: the tail is convex there, so that each step nears
    the solution from the same side.
    """
    tail = 1.0 - confidence
    t = statistics.NormalDist().inv_cdf(0.5 + confidence / 2.0)
    log_peak = math.lgamma((freedom + 1.0) / 2.0) - math.lgamma(freedom / 2.0) - math.log(freedom * math.pi) / 2.0
    for _ in range(_MOST_STEPS):
        density = math.exp(log_peak - (freedom + 1.0) / 2.0 * math.log1p(t * t / freedom))
        step = (student_tails(t, freedom) - tail) / (2.0 * density)
        t += step
        if abs(step) <= 1e-12 * t:
            break
    return t


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """I_x(a, b); `rest` is 1 - x, given apart because it may be too small to survive the subtraction."""
    if x <= 0.0 or rest <= 0.0:
        return 0.0 if x <= 0.0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    if x < (a + 1.0) / (a + b + 2.0):
        return math.exp(log_front) * _fraction(x, a, b) / a
    return 1.0 - math.exp(log_front) * _fraction(rest, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Continued fraction DLMF 8.17.22, from the front by Lentz's method (1976, Applied Optics 15, 668-671)."""
    upper, lower = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1.0))
    value = lower
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        for term in (even, odd):
            lower = 1.0 / _not_zero(1.0 + term * lower)
            upper = _not_zero(1.0 + term / upper)
            value *= lower * upper
        if abs(lower * upper - 1.0) < _PRECISION:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
