"""Two scores of the same samples compared: McNemar's test and Tango's interval, the BCa bootstrap, sample sizes."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.stats.ratio import binomial_cdf

_BISECTIONS = 50
_MOST_SAMPLES = 1e12

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

    enough = 1
    while not is_enough(enough):
        enough *= 2
        if enough > _MOST_SAMPLES:
            return None
    return bisect.bisect_left(range(enough), True, lo=enough // 2, key=is_enough) if enough > 1 else 1


def variance_at(lost: float, won: float, limit: float) -> float | None:
    """Return the variance of one sample's difference that Tango's interval takes where it ends at `limit`.

    It is that of the shares which are most likely among those that differ by `limit`, so that few or no discordant
    samples leave the doubt that they do.

    Parameters
    ----------
    lost, won : shares of samples that only the reference, and only the candidate, gets right.
    limit : difference lost - won; ``None`` is returned where it is not strictly between -1 and 1.
    """
    if not -1.0 < limit < 1.0:
        return None
    return 2.0 * _most_likely_won(lost, won, limit) + limit * (1.0 - limit)


Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Resampling:
    """Evaluations of a score that one interval may take.

    Attributes
    ----------
    resamples : bootstrap resamples.
    samples : most samples in one of them.
    groups : groups of samples that the jackknife leaves out, one after the other.
    """

    resamples: int
    samples: int
    groups: int

    def lasts_s(self, score_s: float, n: int) -> float:
        """Return about how many seconds an interval takes if a score of all `n` samples takes `score_s`."""
        return 2.0 * (self.resamples + self.groups) * score_s * min(1.0, self.samples / n)


USUAL = Resampling(resamples=2000, samples=20_000, groups=400)
COSTLY = tuple(Resampling(resamples, samples=5_000, groups=resamples // 8) for resamples in (400, 200, 100))
"""For scores of third parties, which are computed over all samples at every call: the first that time allows."""
DECIDING = Resampling(resamples=40, samples=5_000, groups=COSTLY[-1].groups)
"""For those whose limit is far from the drop; of fewer resamples none would lie beyond an end of 95 %."""

_SEED = 20260101
_MOST_UNDEFINED = 0.05


@dataclass(frozen=True, slots=True)
class Resampled:
    """Ends of the interval of the difference, and what it was made of.

    Attributes
    ----------
    variance : of one sample's share in the difference, in the squared unit.
    span : the most that an unseen event was taken to change one sample's score.
    sides : the intervals (low, high) of the scores of reference and candidate by themselves.
    """

    low: float
    high: float
    variance: float
    span: float
    sides: tuple[tuple[float, float], ...]


def paired_bootstrap(
    reference: Array,
    candidate: Array,
    aggregate: Callable[[Array], float],
    *,
    confidence: float = 0.95,
    effort: Resampling = USUAL,
    span: float | None = None,
    bounded: bool = False,
    n_different: int | None = None,
    each: Callable[[int], object] = abs,
) -> Resampled | None:
    """Intervals of aggregate(reference) - aggregate(candidate), and of both by themselves.

    Two doubts are added. How the samples that were seen vary: the bias-corrected and accelerated bootstrap
    (Efron 1987, JASA 82, 171-185), its acceleration by a jackknife that leaves out groups. And what none of them has
    shown: events so rare that n samples without one are no surprise, a share of `zero_event_share` (Clopper and
    Pearson 1934), each worth `span`; without it n equal answers would be taken for certainty, and one in 200 samples
    that a rare event ruins is missing from four of five sets of 50.

    Parameters
    ----------
    reference, candidate : statistics of the same samples in the same order, n rows.
    aggregate : returns the score of any rows; raises `ValueError` or `RuntimeError` where it is undefined.
    confidence : of the two-sided interval, 0..1.
    effort : with more than ``effort.samples`` samples, each resample draws only so many of them (m) and its distance
        from the estimate is scaled by sqrt(m / n), the m out of n bootstrap (Bickel, Goetze and van Zwet 1997,
        Statistica Sinica 7, 1-31): time and memory stay bounded.
    span : the most that one sample's score can change; ``None`` takes what was seen: the range of 0 and the
        jackknife's pseudo-values of both scores, which are the samples' own scores where `aggregate` is their mean.
    bounded : no sample can be worth more than `span`, and the doubts are added in squares, as independent ones. Else
        the span is only what was seen, which an unseen event may exceed, and they are added as they are.
    n_different : samples that are no copies of others, for which the interval is; ``None`` for all of them.
    each : called before each resample with the number of those before it.

    Returns
    -------
    ``None`` for fewer than two samples, or when more than 5 % of the resamples have no finite score.

    The samples are drawn with a fixed seed, so that equal data give an equal interval.
    """
    n = len(reference)
    different = n_different or n
    if different < 2:
        return None
    drawn_samples = min(n, effort.samples)
    random = np.random.default_rng(_SEED)
    drawn_scores = np.empty((2, effort.resamples))
    for i in range(effort.resamples):
        each(i)
        drawn = random.integers(0, n, size=drawn_samples)
        drawn_scores[:, i] = _score_of(reference[drawn], aggregate), _score_of(candidate[drawn], aggregate)
    drawn_scores = drawn_scores[:, np.isfinite(drawn_scores).all(axis=0)]
    if drawn_scores.shape[1] < (1.0 - _MOST_UNDEFINED) * effort.resamples:
        return None
    estimates = _score_of(reference, aggregate), _score_of(candidate, aggregate)
    chosen = slice(None) if drawn_samples == n else random.permutation(n)[:drawn_samples]
    (ours, our_range), (theirs, their_range) = (
        _jackknife(side[chosen], aggregate, effort.groups) for side in (reference, candidate)
    )
    shrink = math.sqrt(drawn_samples / different)
    worth = max(0.0, *our_range, *their_range) - min(0.0, *our_range, *their_range) if span is None else span
    unseen = worth * zero_event_share(different, confidence=confidence)

    def ends(drawn: Array, estimate: float, left_out: Array) -> tuple[float, float]:
        tails = _tails(drawn, estimate, shrink * _acceleration(left_out), shrink, confidence)
        # numpy's own rule leaves more beyond an end than the share: of a hundred resamples 3.4 % in place of 2.5 %.
        far = (shrink * (float(end) - estimate) for end in np.quantile(drawn, tails, method="weibull"))
        below, above = (math.hypot(end, unseen) if bounded else abs(end) + unseen for end in far)
        return estimate - below, estimate + above

    differences = drawn_scores[0] - drawn_scores[1]
    low, high = ends(differences, estimates[0] - estimates[1], ours - theirs)
    sides = tuple(map(ends, drawn_scores, estimates, (ours, theirs)))
    return Resampled(low, high, drawn_samples * float(np.var(differences)), worth, sides)


def _score_of(rows: Array, aggregate: Callable[[Array], float]) -> float:
    """Return the score of `rows`, NaN if it is undefined."""
    try:
        return float(aggregate(rows))
    except (ValueError, RuntimeError):
        return math.nan


def _jackknife(rows: Array, aggregate: Callable[[Array], float], groups: int) -> tuple[Array, tuple[float, float]]:
    """Return the score without each group in turn, and the range of what a single sample of a group can be worth.

    Each of at most `groups` random groups is left out; equal seeds give equal groups for both engines.

    A group of h rows of n moves the score from s_(-g) to s. The pseudo-value of a single row that does all of that is
    s + (n - h) (s - s_(-g)): the row's own number where the score is a mean and h is 1 (Tukey 1958).
    """
    n = len(rows)
    whole = _score_of(rows, aggregate)
    order = np.random.default_rng(_SEED).permutation(n)
    left_out, values = [], []
    for group in np.array_split(order, min(n, groups)):
        included = np.ones(n, dtype=bool)
        included[group] = False
        without = _score_of(rows[included], aggregate)
        left_out.append(without)
        values.append(whole + (n - len(group)) * (whole - without))
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    return np.array(left_out), (min(finite), max(finite))


def _acceleration(left_out: Array) -> float:
    """Return Efron's acceleration sum(d^3) / (6 sum(d^2)^1.5), d the distance of each jackknife value below their mean.

    0 where they do not vary, or one of them is undefined.
    """
    distances = np.mean(left_out) - left_out
    squares = float(np.sum(distances**2))
    if not math.isfinite(squares) or squares <= 0.0:
        return 0.0
    return float(np.sum(distances**3)) / (6.0 * math.pow(squares, 1.5))


def _tails(differences: Array, estimate: float, acceleration: float, shrink: float, confidence: float) -> list[float]:
    """Return the two shares of the resamples at which BCa ends the interval (Efron 1987, formulas 2.3 and 4.1).

    Resamples that equal the estimate count half: scores of a few right and wrong answers take few values.
    """
    below = float(np.mean(differences < estimate) + np.mean(differences == estimate) / 2.0)
    least = 1.0 / (len(differences) + 1)
    bias = shrink * NormalDist().inv_cdf(min(max(below, least), 1.0 - least))
    shares = []
    for share in ((1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0):
        shifted = bias + NormalDist().inv_cdf(share)
        slope = 1.0 - acceleration * shifted
        shares.append(NormalDist().cdf(bias + shifted / slope) if slope > 0.0 else float(shifted > 0.0))
    return shares
