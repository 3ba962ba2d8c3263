"""Looks at the rounds while they come in: an exact group-sequential sign test of their median, and its interval.

A round is beyond a limit or not. As long as the true median is not, each round is beyond with probability 1/2 at most,
whatever the distribution, and so the chance that many of them are is known exactly, over all looks together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Boundary:
    """When a group-sequential sign test rejects.

    Attributes
    ----------
    looks : numbers of rounds at which it looks, ascending.
    beyond : for each look, how many rounds must lie beyond the limit; ``None`` where even all of them do not suffice.
    error : exact probability that any look rejects a true median that lies at the limit.
    """

    looks: tuple[int, ...]
    beyond: tuple[int | None, ...]
    error: float


@cache
def sign_boundary(looks: tuple[int, ...], spent: tuple[float, ...]) -> Boundary:
    """Return the boundary that spends a given error up to each look (Lan and DeMets 1983, Biometrika 70, 659-663).

    By recursion from look to look over the number of rounds beyond the limit (Armitage, McPherson and Rowe 1969,
    JRSS A 132, 235-244): each step adds binomial(rounds since the last look, 1/2), and what crosses leaves.

    Parameters
    ----------
    looks : numbers of rounds, ascending, at least 1.
    spent : for each look, the largest one-sided error up to and including it, ascending; what a look cannot spend,
        because counts are whole, the next one may.
    """
    staying, last, error = np.ones(1), 0, 0.0
    beyond: list[int | None] = []
    for rounds, allowed in zip(looks, spent, strict=True):
        fresh = rounds - last
        chances = np.array([math.comb(fresh, k) for k in range(fresh + 1)], dtype=np.float64) / 2.0**fresh
        staying, last = np.convolve(staying, chances), rounds
        crossing = np.cumsum(staying[::-1])[::-1]  # at index k: that k rounds or more lie beyond
        affordable = np.flatnonzero(crossing <= allowed - error)
        if not affordable.size:
            beyond.append(None)
            continue
        least = int(affordable[0])
        error += float(crossing[least])
        staying[least:] = 0.0
        beyond.append(least)
    return Boundary(looks, tuple(beyond), error)


@dataclass(frozen=True, slots=True)
class Looks:
    """Looks at the rounds of one measurement, with errors that hold over all of them together.

    Attributes
    ----------
    first, every : rounds at the first look, and between two of them.
    most : rounds at the last look.
    confidence : of the two-sided interval over all looks, 0..1; each side may err by half of the rest.
    """

    first: int = 8
    every: int = 8
    most: int = 40
    confidence: float = 0.95

    def until(self, rounds: int) -> tuple[int, ...]:
        """Return the looks up to `rounds`, which is one itself: where the time is spent, the last one comes early."""
        return (*range(self.first, min(rounds, self.most), self.every), min(rounds, self.most))

    def boundary(self, rounds: int) -> Boundary:
        """Return the boundary of the looks up to `rounds`.

        The error is spent in proportion to the rounds. A look that comes early because the time is spent may take all
        that is left: it is the last one, and the clock, not the ratio, chose it.
        """
        error, looks = (1.0 - self.confidence) / 2.0, self.until(rounds)
        planned = rounds >= self.first and (rounds - self.first) % self.every == 0
        shares = [look / self.most for look in looks[:-1]] + [rounds / self.most if planned else 1.0]
        return sign_boundary(looks, tuple(error * min(share, 1.0) for share in shares))


@dataclass(frozen=True, slots=True)
class Span:
    """A median and an interval around it, one for each measurement where they are arrays; all in one unit."""

    value: Floats
    low: Floats
    high: Floats


def median_span(values: Floats, beyond: int | None) -> Span:
    """Return the median of the last axis with the interval of all medians that the sign test does not reject.

    That is the repeated confidence interval (Jennison and Turnbull 1989, JRSS B 51, 305-361) of the look: between two
    order statistics, it lies beyond a limit exactly when at least `beyond` of the values do. A value that ties with the
    limit is not beyond it.

    Parameters
    ----------
    values : of any shape, one for each round on the last axis.
    beyond : from `Boundary.beyond`; ``None`` gives the range of all values, of which less is known.
    """
    ordered = np.sort(values, axis=-1)
    rounds = ordered.shape[-1]
    count = rounds if beyond is None else beyond
    return Span(np.median(ordered, axis=-1), ordered[..., rounds - count], ordered[..., count - 1])
