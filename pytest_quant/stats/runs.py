"""Repeated runs of a model over the same samples: the noise between them, and intervals of a drop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_quant.stats.paired import find_crossing, samples_to_resolve, tango_interval, variance_at
from pytest_quant.stats.ratio import student_quantile

Array = NDArray[Any]
Copies: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""For each run of the reference and of the candidate, a number that it shares with the runs that it is a copy of."""


@dataclass(frozen=True, slots=True)
class RunNoise:
    """What the runs of both sides say about further runs.

    Attributes
    ----------
    variance : that runs add to the variance of the drop beyond what the samples tell, in the squared unit of a score;
        0 where nothing is seen of it, and for single runs, which do not show it.
    run_sd : standard deviation of the mean score of a run within its side, in the unit of a score; ``None`` for single
        runs.
    freedom : degrees of freedom of both, the sum of runs that are no copies - 1 over the sides.
    """

    variance: float
    run_sd: float | None
    freedom: int


NO_NOISE_KNOWN = RunNoise(0.0, None, 0)


def assume_noise(run_sd: float, *runs: int) -> RunNoise:
    """Return the noise of sides with so many runs whose scores differ by `run_sd`, as if that were known for sure."""
    # With so many degrees of freedom Student's t is the normal distribution.
    return RunNoise(run_sd**2 * sum(1.0 / number for number in runs), None, 10**6)


def run_noise(
    reference: Array, candidate: Array, earlier_sd: float = 0.0, earlier_freedom: int = 0, copies: Copies = ((), ())
) -> RunNoise:
    """Separate the noise between runs from the noise of single answers.

    All runs see the same samples, and a run belongs to one side: score = side + sample + run + rest, a two-way analysis
    of variance in each side (Obuchowski and Rockette 1995, Communications in Statistics - Simulation and Computation
    24, 285-308; Hillis 2014, Statistics in Medicine 33, 330-360). The rest, drawn anew for each sample and run, is in
    the differences of the samples already; a shift that all samples of a run share cancels in them and is not. The
    variance of run means is that of the shift and 1 / n of that of the rest, which gives the shift's by subtraction.

    Both sides are taken to shift alike, because what shifts a run, such as a seed, a server or a judge, is of the way
    of running and not of the model. So their variances are pooled, and that of a side of one run is known
    from the other one.

    Parameters
    ----------
    reference, candidate : scores (runs, n) of the same n samples in the same order; runs may differ between the sides.
    earlier_sd, earlier_freedom : of the mean score of a run over these samples, as earlier runs show it; without own
        runs to tell the noise of single answers by, all of it is taken for shifts.
    copies : see `Copies`; empty for a side without. Copies show no noise, and the mean of runs that differ with weights
        w has sum(w^2) of the variance of a run.
    """
    sides, squares = [], 0.0
    for side, same in zip((reference, candidate), copies, strict=True):
        _, first, times = np.unique(same or range(len(side)), return_index=True, return_counts=True)
        sides.append(np.asarray(side, dtype=np.float64)[first])
        squares += float(np.sum((times / len(side)) ** 2))
    own = sum(len(side) - 1 for side in sides)
    freedom = own + earlier_freedom
    if freedom == 0:
        return NO_NOISE_KNOWN
    n = sides[0].shape[1]
    runs = rest = 0.0
    for side in sides:
        means = side.mean(axis=1, keepdims=True) - side.mean()
        runs += float(np.sum(means**2))
        rest += float(np.sum((side - side.mean(axis=0) - means) ** 2))
    # The rest has (runs - 1) (n - 1) degrees of freedom in each side; of a single sample it is not known.
    of_means = (runs + earlier_freedom * earlier_sd**2) / freedom
    shift = max(0.0, of_means - rest / (max(1, own) * max(1, n - 1)) / n)
    run_sd = math.sqrt(runs / own) if own else None
    return RunNoise(shift * squares, run_sd, freedom)


def tango_of_runs(reference: Array, candidate: Array, *, confidence: float = 0.95) -> tuple[float, float]:
    """Score interval of the drop of right answers over the samples, in which the drops of further runs need not lie.

    A sample's difference d of its shares of right answers is lost where it is positive and won where it is negative.
    Shares of several runs vary less than single answers, whose variance is E|d| - (E d)^2, so that the counts are those
    of as many samples as give the variance of d (Rao and Scott 1992, Biometrics 48, 577-585) in Tango's interval. With
    one run a side it is that interval, and where no sample differs it takes the samples as they are.
    Rare events that no sample shows are allowed for by as much as a typical difference, which is less than
    `paired_bootstrap` allows.

    Parameters
    ----------
    reference, candidate : right answers (runs, n), 0 or 1, to the same n samples in the same order.
    confidence : of the two-sided interval, 0..1.

    Returns
    -------
    Lower and upper end, within -1..1.
    """
    lost, won, times = _count_answers(reference, candidate)
    n = reference.shape[1] * times
    return tango_interval(lost * n, won * n, n, confidence=confidence)


def samples_of_runs(reference: Array, candidate: Array, limit: float) -> int | None:
    """Return the samples at which `tango_of_runs` would leave out a limit on the drop, see `samples_to_resolve`.

    Parameters
    ----------
    reference, candidate : as in `tango_of_runs`.
    limit : largest allowed drop, as a share of the samples.
    """
    lost, won, times = _count_answers(reference, candidate)
    drop, at_limit = lost - won, variance_at(lost, won, limit)
    variance = (lost + won - drop**2) / times
    return samples_to_resolve(variance, drop, limit, at_limit=None if at_limit is None else at_limit / times)


def _count_answers(reference: Array, candidate: Array) -> tuple[float, float, float]:
    """Return the shares of samples lost and won, and how many single answers a sample's difference is worth."""
    differences = reference.mean(axis=0) - candidate.mean(axis=0)
    lost, won = (float(np.mean(np.maximum(sign * differences, 0.0))) for sign in (1.0, -1.0))
    variance = float(np.var(differences))
    return lost, won, (lost + won - (lost - won) ** 2) / variance if variance > 1e-12 else 1.0


def add_run_noise(
    drop: float, ends: tuple[float, float], noise: RunNoise, confidence: float = 0.95
) -> tuple[float, float]:
    """Widen the interval that the samples give, so that it holds for further runs too.

    Each end's distance from the drop and that of the runs, Student's t times the square root of their variance, are
    added in squares, as those of independent estimates (Zou and Donner 2008, Statistics in Medicine 27, 1693-1702).
    The interval of the samples keeps its method and shape, and noise that is just seen widens it a little only: one
    t quantile for the whole variance would jump to that of a few runs at once, which hides real drops.

    Simulated with normal noise, an interval of 95 % holds in 95 to 97 % where there is no shift or a large one, and in
    fewest where the shift's variance is 2 to 5 times that of the rest: 93.5 % with ten runs on a side, 92.5 % with
    three on both, 91 % with two on both, 86 % with two and one.

    Parameters
    ----------
    drop : reference - candidate, the mean over samples and runs, in the unit of the scores.
    ends : of the interval that the samples give, which enclose `drop`; both have `confidence`.
    confidence : of the two-sided interval, 0..1.

    Returns
    -------
    Lower and upper end, which may lie beyond the range of the scores.
    """
    if noise.variance == 0.0:
        return ends
    reach = student_quantile(confidence, noise.freedom) * math.sqrt(noise.variance)
    low, high = ends
    return drop - math.hypot(drop - low, reach), drop + math.hypot(high - drop, reach)


def tail_beyond(limit: float, drop: float, low: float, noise: RunNoise, confidence: float = 0.95) -> float:
    """Return the one-sided p that the drop is at most `limit`: the level at which the interval's lower end reaches it.

    Parameters
    ----------
    limit, drop : the largest drop that is allowed, and that of the scores.
    low : lower end of the interval that the samples give, which has `confidence`; its distance is taken to grow with
        the normal quantile.
    noise : between runs, see `add_run_noise`.

    Returns
    -------
    0.5 for a drop of at most `limit`.
    """
    error = (drop - low) / NormalDist().inv_cdf(0.5 + confidence / 2.0)

    def excess(p: float) -> float:
        ends = drop - NormalDist().inv_cdf(1.0 - p) * error, drop
        return add_run_noise(drop, ends, noise, 1.0 - 2.0 * p)[0] - limit

    return find_crossing(0.0, 0.5, excess)
