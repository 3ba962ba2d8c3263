"""Confidence sequences for the mean of bounded outcomes: intervals that hold at every moment at which one may stop.

An ordinary interval that is looked at again and again until it leaves out a limit errs far more often than it says. A
bettor who doubts that the mean is m stakes a part of the capital on each next outcome; if m is the mean, the capital is
a martingale, and it ever reaches 1 / alpha with a probability of at most alpha (Ville 1939). The m against which nobody
grew rich are the confidence sequence (Waudby-Smith and Ramdas 2024, JRSS B 86, 1-27; Howard and Ramdas 2022, Bernoulli
28, 1704-1728). Drawing without replacement from a known number of samples narrows it (Waudby-Smith and Ramdas 2020,
NeurIPS 33).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_LARGEST_STAKE = 0.5
"""Of the capital that the worst outcome may take, so that no bet loses everything."""

_ROWS = 2048
_CELLS, _PARTS, _CUTS = 32, 8, 4
"""Cells of the possible means that are looked at, and the parts into which the cell of each end is cut so many times:
an end is known to 1 in 130 000 of the range."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """How the outcomes of samples are bounded, and out of how many samples they are drawn.

    Attributes
    ----------
    low, high : smallest and largest possible outcome.
    population : number of samples whose mean is asked for, drawn without replacement in random order; ``None`` where
        the mean is that of all samples there could be.
    """

    low: float
    high: float
    population: int | None


class ConfidenceSequence:
    """Takes outcomes one after the other, in random order, and bounds their mean at any moment.

    Parameters
    ----------
    bounds : of the outcomes.
    confidence : with which the sequence encloses the mean at all moments together, 0..1.
    """

    def __init__(self, bounds: Bounded, confidence: float) -> None:
        self._bounds = bounds
        self._rich = math.log(2.0 / (1.0 - confidence))
        self._outcomes: list[Array] = []

    def add(self, outcomes: Array) -> None:
        """Add the next outcomes (n,), each within the bounds."""
        span = self._bounds.high - self._bounds.low
        self._outcomes.append((np.asarray(outcomes, dtype=np.float64) - self._bounds.low) / span)

    @property
    def n(self) -> int:
        """Number of outcomes so far."""
        return sum(len(one) for one in self._outcomes)

    @property
    def mean(self) -> float:
        """Mean of the outcomes so far, of which there is at least one."""
        return self._scaled(float(np.mean(np.concatenate(self._outcomes))))

    def excludes(self, value: float) -> bool:
        """Tell whether the sequence leaves out `value`; cheaper than the interval."""
        bounds = self._bounds
        at = np.array([(value - bounds.low) / (bounds.high - bounds.low)])
        return not 0.0 <= float(at[0]) <= 1.0 or bool(self._rejected(at)[0])

    def interval(self) -> tuple[float, float]:
        """Return the lowest and the highest mean that the sequence leaves possible, each rounded outwards.

        The whole range where none is left, which happens as rarely as an error.
        """
        means = np.linspace(0.0, 1.0, _CELLS + 1)
        if self._outcomes:
            # Between two means that are looked at there may be one that is left, and the likeliest is that so far.
            means = np.union1d(means, [np.mean(np.concatenate(self._outcomes))])
        left = np.flatnonzero(~self._rejected(means))
        if not left.size:
            return self._bounds.low, self._bounds.high
        first, last = int(left[0]), int(left[-1])
        # Each end lies in a cell from a mean that is rejected to one that is left, which is cut again and again.
        below = means[max(0, first - 1)], means[first]
        above = means[min(len(means) - 1, last + 1)], means[last]
        for _ in range(_CUTS):
            cuts = [np.linspace(*cell, _PARTS + 1) for cell in (below, above)]
            rejected = self._rejected(np.concatenate(cuts))
            below, above = (_outermost(cell, gone) for cell, gone in zip(cuts, np.split(rejected, 2), strict=True))
        return self._scaled(float(below[0])), self._scaled(float(above[0]))

    def _scaled(self, mean: float) -> float:
        return self._bounds.low + mean * (self._bounds.high - self._bounds.low)

    def _rejected(self, means: Array) -> Array:
        """Tell for each mean whether a bettor against it was rich at any moment so far.

        Two of them share the allowed error: one stakes on a larger mean, the other on a smaller one. The stake is the
        one that grows the capital fastest if the mean and variance so far go on (aGRAPA, Waudby-Smith and Ramdas
        2024, section B.3); it is found before the outcome is seen.
        """
        outcomes = np.concatenate(self._outcomes) if self._outcomes else np.empty(0)
        n = np.arange(len(outcomes), dtype=np.float64)
        before = np.concatenate(([0.0], np.cumsum(outcomes)[:-1])) if len(outcomes) else outcomes
        squares = np.concatenate(([0.0], np.cumsum(outcomes**2)[:-1])) if len(outcomes) else outcomes
        average = (0.5 + before) / (n + 1.0)
        variance = (0.25 + squares - 2.0 * average * before + n * average**2) / (n + 1.0)
        capital, richest = np.zeros((2, len(means))), np.zeros((2, len(means)))
        for first in range(0, len(outcomes), _ROWS):
            cut = slice(first, first + _ROWS)
            expected = self._expected(means, before[cut], n[cut])
            gains = _gains(outcomes[cut, None], expected, average[cut, None], variance[cut, None])
            path = capital[:, None, :] + np.cumsum(gains, axis=1)
            capital = path[:, -1, :]
            richest = np.maximum(richest, path.max(axis=1))
        return np.asarray(richest.max(axis=0) >= self._rich)

    def _expected(self, means: Array, before: Array, n: Array) -> Array:
        """Return the mean of the next outcome (rows, means) if each mean is the true one, given those before it."""
        population = self._bounds.population
        if population is None:
            return np.broadcast_to(means, (len(n), len(means)))
        return np.asarray((population * means - before[:, None]) / np.maximum(population - n, 1.0)[:, None])


def _outermost(cuts: Array, rejected: Array) -> tuple[float, float]:
    """Return the two neighbours, of means from a rejected one to one that is left, between which the first is left."""
    left = np.flatnonzero(~rejected)
    first = int(left[0]) if left.size else len(cuts) - 1
    return float(cuts[max(0, first - 1)]), float(cuts[first])


def _gains(outcomes: Array, expected: Array, average: Array, variance: Array) -> Array:
    """Return the logarithms (2, rows, means) by which the capitals of both bettors grow with each outcome.

    An expected outcome that is not possible, when too few samples are left to reach the mean, makes a bettor rich.
    """
    possible = (expected >= 0.0) & (expected <= 1.0)
    fair = np.clip(expected, 1e-12, 1.0 - 1e-12)
    apart = average - fair
    stake = apart / (variance + apart**2)
    up = np.clip(stake, 0.0, _LARGEST_STAKE / fair)
    down = np.clip(-stake, 0.0, _LARGEST_STAKE / (1.0 - fair))
    gains = np.stack([np.log1p(up * (outcomes - fair)), np.log1p(down * (fair - outcomes))])
    slack = 1e-9
    gains[:, ~possible & ((expected < -slack) | (expected > 1.0 + slack))] = np.inf
    return gains
