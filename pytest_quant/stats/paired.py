"""Right and wrong answers to the same samples compared: McNemar's test, Tango's interval, luck, sample sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

from pytest_quant.stats.ratio import binomial_cdf, find_first

_RARE = 1e-12

SPREADS = 3.0
"""Standard deviations beyond which nothing is luck: once in 700 times a sum of many answers lies further above."""


def mcnemar_p(lost: int, won: int) -> float:
    """Exact two-sided p that `lost` and `won` come from a fair coin (McNemar 1947, exact form).

    Twice the binomial tail P(X <= min(lost, won)), at most 1.

    Parameters
    ----------
    lost : samples that only the reference gets right.
    won : samples that only the candidate gets right.
    """
    return min(1.0, 2.0 * float(binomial_cdf(lost + won, 0.5)[min(lost, won)]))


def tango_interval(lost: float, won: float, n: float, *, confidence: float = 0.95) -> tuple[float, float]:
    """Score interval of the difference (lost - won) / n of two paired proportions, within -1..1.

    Inverts the score test of Tango (1998), Statistics in Medicine 17, 891-908. Unlike the Wald interval it keeps
    its level for few discordant samples, and is not empty when there are none.

    Parameters
    ----------
    lost : samples that only the reference gets right; counts may be effective ones, which are not whole.
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

    return find_crossing(estimate, -1.0, excess), find_crossing(estimate, 1.0, excess)


def drop_tail(lost: int, won: int, n: int, limit: float) -> float:
    """Return the one-sided mid-p that the difference of two paired proportions is at most `limit`.

    P(D > d) + P(D = d) / 2 of the difference d = lost - won, if the shares are those of Tango's test, which are most
    likely where they differ by `limit`. His normal distribution is too thin there for the small p that many tests
    together need: of a few expected losses twice as many are not so rare.

    Parameters
    ----------
    lost, won : samples that only the reference, and only the candidate, gets right.
    n : all samples, at least 1.
    limit : largest difference that is allowed, as a share of the samples.

    Returns
    -------
    0.5 for a difference of at most `limit`.
    """
    if lost - won <= limit * n:
        return 0.5
    # The difference of so many is as good as normal.
    if lost + won > 1000:
        return 1.0 - NormalDist().cdf(_score(lost, won, n, limit))
    q = _most_likely_won(lost / n, won / n, limit)
    either = min(max(2.0 * q + limit, _RARE), 1.0 - _RARE)
    to_lost, tail = min((q + limit) / either, 1.0 - _RARE), 0.0
    chances = np.diff(binomial_cdf(n, either), prepend=0.0)
    for k in np.flatnonzero(chances > _RARE).tolist():
        up_to = np.concatenate(([0.0], binomial_cdf(k, to_lost)))
        # So many lost of k are a difference of d at most, and of less than d.
        most, fewer = min((k + lost - won) // 2, k), min((k + lost - won - 1) // 2, k)
        tail += chances[k] * (1.0 - (up_to[most + 1] + up_to[fewer + 1]) / 2.0)
    return float(tail)


def _score(lost: float, won: float, n: float, delta: float) -> float:
    """Tango's statistic: the estimate's distance from `delta` in standard errors under `delta`."""
    variance = n * (2.0 * _most_likely_won(lost / n, won / n, delta) + delta * (1.0 - delta))
    distance = lost - won - n * delta
    if variance <= 0.0:
        return 0.0 if distance == 0.0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)


def _most_likely_won(lost: float, won: float, delta: float) -> float:
    """Return the share of samples that only the candidate gets right, most likely if the difference is `delta`."""
    b = (2.0 - lost + won) * delta - lost - won
    c = -won * delta * (1.0 - delta)
    return (math.sqrt(max(0.0, b * b - 8.0 * c)) - b) / 4.0


def find_crossing(inside: float, outside: float, excess: Callable[[float], float]) -> float:
    """Bisect between a difference that the test accepts and the end of the range."""
    if excess(outside) <= 0.0:
        return outside
    for _ in range(50):
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


def agreement_by_luck(first: Sequence[int], second: Sequence[int], n_different: int | None = None) -> float:
    """Return the most that answers agree by luck that have nothing to do with each other, as a share of the samples.

    It is the mean over all orders of the second answers and three standard deviations of it, as the test of Cohen's
    kappa has them (Fleiss, Cohen and Everitt 1969, Psychological Bulletin 72, 323-327).

    Parameters
    ----------
    first, second : how often each class was answered; both have one sum, the number of samples.
    n_different : samples that are no copies of others; ``None`` for all of them.
    """
    n = sum(first)
    different = n_different or n
    if min(n, different) < 2:
        return 1.0
    shares = [(left / n, right / n) for left, right in zip(first, second, strict=True)]
    mean = sum(p * q for p, q in shares)
    variance = (mean + mean**2 - sum(p * q * (p + q) for p, q in shares)) / (different - 1)
    return min(1.0, mean + SPREADS * math.sqrt(max(0.0, variance)))


def zero_event_share(n: int, *, confidence: float = 0.95) -> float:
    """Return the largest share of samples with an event that `n` samples without one leave possible, 0..1.

    The upper end of the two-sided exact interval (Clopper and Pearson 1934, Biometrika 26, 404-413):
    1 - ((1 - confidence) / 2)^(1 / n).
    """
    return 1.0 - math.pow((1.0 - confidence) / 2.0, 1.0 / n)


def samples_to_resolve(
    variance: float,
    drop: float,
    limit: float,
    *,
    at_limit: float | None = None,
    span: float = 0.0,
    bounded: bool = False,
    confidence: float = 0.95,
) -> int | None:
    """Return the samples n at which a two-sided interval of `confidence` leaves out `limit` with a probability of 0.8.

    The smallest n with z_a sqrt(V0 / n) + span u(n) + z_b sqrt(V / n) <= |limit - drop|: z_a and z_b the normal
    quantiles of (1 + confidence) / 2 and 0.8, u `zero_event_share`. Without `span` that is the sample size of a
    paired difference, for right or wrong answers (Connor 1987, Biometrics 43, 207-211) that of the score interval.

    Parameters
    ----------
    variance : V, of one sample's difference, in the squared unit of `drop` and `limit`.
    drop : measured difference reference - candidate.
    limit : largest allowed difference.
    at_limit : V0, the variance that the interval takes at its end, see `variance_at`; ``None`` where it is V.
    span, bounded : what a sample that shows an unseen event is worth, and whether the first two terms are added in
        squares, as `paired_bootstrap` takes them.
    confidence : of the two-sided interval, 0..1.

    Returns
    -------
    ``None`` when drop and limit are equal but for rounding, or nothing varies.
    """
    distance, null = abs(limit - drop), variance if at_limit is None else at_limit
    if distance == 0.0 or (null <= 0.0 and span <= 0.0):
        return None
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0), NormalDist().inv_cdf(0.8)

    def is_enough(n: int) -> bool:
        unseen = span * zero_event_share(n, confidence=confidence)
        seen = z[0] * math.sqrt(null / n)
        reach = math.hypot(seen, unseen) if bounded else seen + unseen
        return reach + z[1] * math.sqrt(max(0.0, variance) / n) <= distance

    return find_first(is_enough) if is_enough(2**39) else None


def variance_at(lost: float, won: float, limit: float) -> float | None:
    """Return the variance of one sample's difference that Tango's interval takes where it ends at `limit`.

    It is that of the shares which are most likely among those that differ by `limit`, so that few or no discordant
    samples leave the doubt that they do.

    Parameters
    ----------
    lost, won : shares of samples that only the reference, and only the candidate, gets right.
    limit : difference lost - won; ``None`` is returned where it is not strictly between -1 and 1.
    """
    return 2.0 * _most_likely_won(lost, won, limit) + limit * (1.0 - limit) if -1.0 < limit < 1.0 else None
