"""Paired comparison of two scores on the same samples: McNemar's test, Tango's interval, sample size and bootstrap."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BISECTIONS = 60
_NEGLIGIBLE = 1e-17


def mcnemar_p(lost: int, won: int) -> float:
    """Exact two-sided p that `lost` and `won` come from a fair coin (McNemar 1947, exact form).

    Twice the binomial tail P(X <= min(lost, won)), at most 1; the tail is summed from its largest term down.

    Parameters
    ----------
    lost : samples that only the reference gets right.
    won : samples that only the candidate gets right.
    """
    n, k = lost + won, min(lost, won)
    log_largest = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2.0)
    term = tail = 1.0
    while k > 0 and term > _NEGLIGIBLE * tail:
        term *= k / (n - k + 1)
        tail += term
        k -= 1
    return min(1.0, 2.0 * math.exp(log_largest) * tail)


def tango_interval(lost: int, won: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Score interval of the difference (lost - won) / n of two paired proportions, within -1..1.

    Inverts the score test of Tango (1998), Statistics in Medicine 17, 891-908. Unlike the Wald interval it keeps
    its level for few discordant samples, and is not empty when there are none.

    Parameters
    ----------
    lost : samples that only the reference gets right.
    won : samples that only the candidate gets right.
    n : all samples, at least 1.
    confidence : of the two-sided interval, 0..1.

    Returns
    -------
    Lower and upper end.
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    estimate = (lost - won) / n

    def excess(delta: float) -> float:
        return abs(_score(lost, won, n, delta)) - z

    return _crossing(estimate, -1.0, excess), _crossing(estimate, 1.0, excess)


def _score(lost: int, won: int, n: int, delta: float) -> float:
    """Tango's statistic: the estimate's distance from `delta` in standard errors under `delta`."""
    b = -lost - won + (2 * n - lost + won) * delta
    c = -won * delta * (1.0 - delta)
    q = (math.sqrt(max(0.0, b * b - 8.0 * n * c)) - b) / (4.0 * n)
    variance = n * (2.0 * q + delta * (1.0 - delta))
    distance = lost - won - n * delta
    if variance <= 0.0:
        return 0.0 if distance == 0.0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)


def _crossing(inside: float, outside: float, excess: Callable[[float], float]) -> float:
    """Bisect between a difference that the test accepts and the end of the range."""
    if excess(outside) <= 0.0:
        return outside
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2.0
        if excess(middle) <= 0.0:
            inside = middle
        else:
            outside = middle
    return inside


def wilson_interval(right: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Score interval of one proportion, within 0..1 (Wilson 1927, JASA 22, 209-212); not empty for none or all right.

    Parameters
    ----------
    right : samples that have the property.
    n : all samples, at least 1.
    confidence : of the two-sided interval, 0..1.

    Returns
    -------
    Lower and upper end.
    """
    z2 = NormalDist().inv_cdf(0.5 + confidence / 2.0) ** 2
    middle = right + z2 / 2.0
    half = math.sqrt(z2 * (right * (n - right) / n + z2 / 4.0))
    # At the ends the exact values are 0 and 1, which rounding misses.
    return (middle - half) / (n + z2) if right else 0.0, (middle + half) / (n + z2) if right < n else 1.0


def zero_event_share(n: int, *, confidence: float = 0.95) -> float:
    """Return the largest share of samples with an event that `n` samples without one leave possible, 0..1.

    The upper end of the two-sided exact interval (Clopper and Pearson 1934, Biometrika 26, 404-413):
    1 - ((1 - confidence) / 2)^(1 / n).
    """
    return 1.0 - math.pow((1.0 - confidence) / 2.0, 1.0 / n)


def samples_to_resolve(
    variance: float, drop: float, limit: float, *, confidence: float = 0.95, power: float = 0.8
) -> int | None:
    """Return the samples n at which a one-sided test distinguishes `drop` from `limit`.

    n = (z_confidence + z_power)^2 variance / (limit - drop)^2, the normal sample size for a paired difference; for
    right or wrong answers the variance is (discordant share) - drop^2 (Connor 1987, Biometrics 43, 207-211).

    Parameters
    ----------
    variance : of one sample's difference, in the squared unit of `drop` and `limit`.
    drop : measured difference reference - candidate.
    limit : largest allowed difference.
    confidence : of the test, one-sided, 0..1.
    power : probability that the test decides, 0..1.

    Returns
    -------
    ``None`` when drop and limit are equal, or the samples show no variance.
    """
    distance = limit - drop
    if distance == 0.0 or variance <= 0.0:
        return None
    z = NormalDist().inv_cdf(confidence) + NormalDist().inv_cdf(power)
    return math.ceil(z * z * variance / (distance * distance))


RESAMPLES, SAMPLES = 2000, 20_000
COSTLY_RESAMPLES, COSTLY_SAMPLES = 400, 5_000
"""For scores of third parties, which are computed over all samples at every call."""

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
    aggregate : returns the score of any rows; raises `ValueError` or `RuntimeError` where it is undefined.
    confidence : of the two-sided interval, 0..1.
    resamples : number of bootstrap resamples.
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
