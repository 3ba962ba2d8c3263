"""Interval of the paired difference of any two scores: the BCa bootstrap, and what no sample has shown yet."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.stats.paired import zero_event_share

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


USUAL = Resampling(resamples=2000, samples=20_000, groups=400)
COSTLY = Resampling(resamples=400, samples=5_000, groups=50)
"""For scores of third parties, which are computed over all samples at every call."""

_SEED = 20260101
_MOST_UNDEFINED = 0.05
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Resampled:
    """Ends of the interval of the difference, and what it was made of.

    Attributes
    ----------
    variance : of one sample's share in the difference, in the squared unit.
    span : the most that an unseen event was taken to change one sample's score.
    """

    low: float
    high: float
    variance: float
    span: float


def paired_bootstrap(
    reference: Array,
    candidate: Array,
    aggregate: Callable[[Array], float],
    *,
    confidence: float = 0.95,
    effort: Resampling = USUAL,
    span: float | None = None,
    bounded: bool = False,
) -> Resampled | None:
    """Interval of aggregate(reference) - aggregate(candidate).

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

    Returns
    -------
    ``None`` for fewer than two samples, or when more than 5 % of the resamples have no finite score.

    The samples are drawn with a fixed seed, so that equal data give an equal interval.
    """
    n = len(reference)
    if n < 2:
        return None
    drawn_samples = min(n, effort.samples)
    random = np.random.default_rng(_SEED)
    differences = np.empty(effort.resamples)
    for i in range(effort.resamples):
        drawn = random.integers(0, n, size=drawn_samples)
        differences[i] = _score(reference[drawn], aggregate) - _score(candidate[drawn], aggregate)
    differences = differences[np.isfinite(differences)]
    if differences.size < (1.0 - _MOST_UNDEFINED) * effort.resamples:
        return None
    estimate = _score(reference, aggregate) - _score(candidate, aggregate)
    chosen = slice(None) if drawn_samples == n else random.permutation(n)[:drawn_samples]
    ours, theirs = (_jackknife(side[chosen], aggregate, effort.groups) for side in (reference, candidate))
    shrink = math.sqrt(drawn_samples / n)
    tails = _tails(differences, estimate, shrink * _acceleration(ours.left_out - theirs.left_out), shrink, confidence)
    ends = (shrink * (float(end) - estimate) for end in np.quantile(differences, tails))
    worth = max(0.0, ours.high, theirs.high) - min(0.0, ours.low, theirs.low) if span is None else span
    unseen = worth * zero_event_share(n, confidence=confidence)
    below, above = (math.hypot(end, unseen) if bounded else abs(end) + unseen for end in ends)
    return Resampled(estimate - below, estimate + above, drawn_samples * float(np.var(differences)), worth)


def _score(rows: Array, aggregate: Callable[[Array], float]) -> float:
    """Return the score of `rows`, NaN where it is undefined."""
    try:
        return float(aggregate(rows))
    except (ValueError, RuntimeError):
        return math.nan


@dataclass(frozen=True, slots=True)
class _Jackknife:
    """The score without each group in turn, and the range of what a single sample of a group can be worth."""

    left_out: Array
    low: float
    high: float


def _jackknife(rows: Array, aggregate: Callable[[Array], float], groups: int) -> _Jackknife:
    """Leave out each of at most `groups` random groups; equal seeds give equal groups for both engines.

    A group of h rows of n moves the score from s_(-g) to s. The pseudo-value of a single row that does all of that is
    s + (n - h) (s - s_(-g)): the row's own number where the score is a mean and h is 1 (Tukey 1958).
    """
    n = len(rows)
    whole = _score(rows, aggregate)
    order = np.random.default_rng(_SEED).permutation(n)
    left_out, values = [], []
    for group in np.array_split(order, min(n, groups)):
        included = np.ones(n, dtype=bool)
        included[group] = False
        without = _score(rows[included], aggregate)
        left_out.append(without)
        values.append(whole + (n - len(group)) * (whole - without))
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    return _Jackknife(np.array(left_out), min(finite), max(finite))


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
    bias = shrink * _NORMAL.inv_cdf(min(max(below, least), 1.0 - least))
    shares = []
    for share in ((1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0):
        shifted = bias + _NORMAL.inv_cdf(share)
        slope = 1.0 - acceleration * shifted
        shares.append(_NORMAL.cdf(bias + shifted / slope) if slope > 0.0 else float(shifted > 0.0))
    return shares
