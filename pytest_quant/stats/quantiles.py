"""Quantiles of chi-square and beta, the interval of a standard deviation, and Clopper and Pearson's of a share."""

from __future__ import annotations

import math
from collections.abc import Callable

from pytest_quant.stats.ratio import incomplete_beta

_HALVINGS = 200
_MOST_TERMS = 100_000
_PRECISION = 1e-15
_TINY = 1e-300


def chi_square_below(value: float, freedom: float) -> float:
    """P(X <= `value`) of chi-square: the regularized incomplete gamma function P(freedom / 2, value / 2), DLMF 8.2."""
    a, x = freedom / 2.0, value / 2.0
    if x <= 0.0:
        return 0.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    return front * _series(a, x) if x < a + 1.0 else 1.0 - front * _fraction(a, x)


def chi_square_quantile(share: float, freedom: float) -> float:
    """Return the x with P(X <= x) = `share` of chi-square, strictly between 0 and 1."""
    above = freedom + 1.0
    while chi_square_below(above, freedom) < share:
        above *= 2.0
    return _root(lambda x: chi_square_below(x, freedom) - share, above)


def sd_interval(sd: float, freedom: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return the two-sided interval of a normal standard deviation, in its unit.

    freedom * sd^2 / sigma^2 is chi-square (Snedecor and Cochran 1989, Statistical Methods, section 5.11).

    Parameters
    ----------
    sd : estimated with `freedom` degrees of freedom.
    freedom : above 0; need not be whole.
    confidence : of the interval, 0..1.
    """
    tail = (1.0 - confidence) / 2.0
    low, high = (sd * math.sqrt(freedom / chi_square_quantile(p, freedom)) for p in (1.0 - tail, tail))
    return low, high


def beta_quantile(share: float, a: float, b: float) -> float:
    """Return the x with I_x(a, b) = `share`: the quantile of the beta distribution, a and b above 0."""
    return _root(lambda x: incomplete_beta(x, 1.0 - x, a, b) - share, 1.0)


def share_interval(events: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a probability, each bound one-sided at `confidence`.

    Of Clopper and Pearson (1934, Biometrika 26, 404-413). No event in n trials gives 0 and 1 - (1 - confidence)^(1/n):
    13.9 % for n = 20 at 95 %.

    Parameters
    ----------
    events : 0 to `trials`.
    trials : independent ones, at least 1.
    confidence : of each bound, 0..1.
    """
    low = 0.0 if events == 0 else beta_quantile(1.0 - confidence, events, trials - events + 1.0)
    high = 1.0 if events == trials else beta_quantile(confidence, events + 1.0, trials - events)
    return low, high


def _root(function: Callable[[float], float], above: float) -> float:
    """Return where an increasing function is 0 between 0 and `above`, by halving."""
    low, high = 0.0, above
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        low, high = (middle, high) if function(middle) < 0.0 else (low, middle)
    return high


def _series(a: float, x: float) -> float:
    """Sum of x^k / (a (a + 1) ... (a + k)), DLMF 8.11.4."""
    term = total = 1.0 / a
    for k in range(1, _MOST_TERMS):
        term *= x / (a + k)
        total += term
        if term < total * _PRECISION:
            break
    return total


def _fraction(a: float, x: float) -> float:
    """Continued fraction of the upper function, DLMF 8.9.2, from the front by Lentz's method."""
    b = x + 1.0 - a
    upper, lower = 1.0 / _TINY, 1.0 / b
    value = lower
    for k in range(1, _MOST_TERMS):
        step = -k * (k - a)
        b += 2.0
        lower = 1.0 / _not_zero(step * lower + b)
        upper = _not_zero(b + step / upper)
        value *= lower * upper
        if abs(lower * upper - 1.0) < _PRECISION:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
