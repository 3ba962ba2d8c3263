"""Variances of many small groups, moderated: each one is drawn to what all of them have in common.

Smyth (2004), Linear models and empirical Bayes methods for assessing differential expression in microarray experiments,
Statistical Applications in Genetics and Molecular Biology 3, article 3, section 6.2: the variances are those of a
scaled inverse chi-square distribution, whose degrees of freedom and scale are found from the mean and the variance of
the logarithms of the sample variances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST_GROUPS = 3
"""With fewer the spread of their variances is not known, and nothing is borrowed."""

_LEAST_SHARE = 1e-5
"""Of the median: a smaller variance, of equal numbers say, has no finite logarithm to count with."""

_SHIFT = 10.0
"""Above it the asymptotic series of psi and its derivative are exact to 1e-13."""

_HALVINGS = 100

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Variance:
    """A variance, and the degrees of freedom with which it is known; 0 of them for one that is not."""

    value: float
    freedom: float


UNKNOWN = Variance(0.0, 0.0)


def common_variance(groups: Sequence[Variance], most_freedom: float) -> Variance:
    """Return what groups have in common: the prior variance of each one, and how many degrees of freedom it is worth.

    Parameters
    ----------
    groups : sample variances; those without a degree of freedom are left out.
    most_freedom : largest accepted degrees of freedom of the prior, which are infinite where the groups differ by no
        more than chance: what is estimated from them cannot be known better than they tell.

    Returns
    -------
    Prior variance and degrees of freedom, `UNKNOWN` for fewer than three groups.
    """
    known = [group for group in groups if group.freedom > 0.0]
    if len(known) < FEWEST_GROUPS:
        return UNKNOWN
    values = np.array([group.value for group in known])
    freedoms = np.array([group.freedom for group in known])
    middle = float(np.median(values))
    if middle <= 0.0:
        return Variance(0.0, min(float(freedoms.sum()), most_freedom))
    logs = np.log(np.maximum(values, _LEAST_SHARE * middle)) - _digamma(freedoms / 2.0) + np.log(freedoms / 2.0)
    excess = float(np.var(logs, ddof=1) - _trigamma(freedoms / 2.0).mean())
    if excess <= 0.0:
        return Variance(float(freedoms @ values / freedoms.sum()), most_freedom)
    freedom = 2.0 * _inverse_trigamma(excess)
    half = np.array([freedom / 2.0])
    log_scale = float(logs.mean() + _digamma(half)[0] - math.log(freedom / 2.0))
    return Variance(math.exp(log_scale), min(freedom, most_freedom))


def moderated(own: Variance, prior: Variance) -> Variance:
    """Return the posterior variance: the mean of both by degrees of freedom, which add up (Smyth 2004, section 3)."""
    freedom = own.freedom + prior.freedom
    if freedom <= 0.0:
        return UNKNOWN
    return Variance((own.freedom * own.value + prior.freedom * prior.value) / freedom, freedom)


def _digamma(x: Array) -> Array:
    """Derivative of log gamma, for x > 0: recurrence DLMF 5.5.2 up to the asymptotic series 5.11.2."""
    above, value = x.astype(np.float64), np.zeros_like(x, dtype=np.float64)
    while np.any(above < _SHIFT):
        small = above < _SHIFT
        value = np.where(small, value - 1.0 / above, value)
        above = np.where(small, above + 1.0, above)
    square = 1.0 / above**2
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square * (1 / 132)))))
    return np.asarray(value + np.log(above) - 0.5 / above - series)


def _trigamma(x: Array) -> Array:
    """Second derivative of log gamma, for x > 0: DLMF 5.15.5 and 5.15.8."""
    above, value = x.astype(np.float64), np.zeros_like(x, dtype=np.float64)
    while np.any(above < _SHIFT):
        small = above < _SHIFT
        value = np.where(small, value + 1.0 / above**2, value)
        above = np.where(small, above + 1.0, above)
    square = 1.0 / above**2
    series = square * (1 / 6 - square * (1 / 30 - square * (1 / 42 - square * (1 / 30 - square * (5 / 66)))))
    return np.asarray(value + 1.0 / above + square / 2.0 + series / above)


def _inverse_trigamma(value: float) -> float:
    """Return the x > 0 with trigamma(x) = `value`, which falls from infinity to 0, by halving on a scale of logs."""
    low, high = math.log(1e-6), math.log(1e12)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if float(_trigamma(np.array([math.exp(middle)]))[0]) > value else (low, middle)
    return math.exp((low + high) / 2.0)
