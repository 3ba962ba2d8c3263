"""The difference of two groups of launches, head and base, with days as clusters; see `pytest_quant.stats.launches`.

It is the generalized least squares estimate, so that a day on which both were launched cancels out, and a day that only
one of them has counts in full. Its variance is a sum of mean squares, the degrees of freedom are those of Satterthwaite
(1946), Biometrics Bulletin 2, 110-114.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace

import numpy as np

from pytest_quant.result import LaunchNoise
from pytest_quant.spec import Spread
from pytest_quant.stats.launches import Launch, group_by_day
from pytest_quant.stats.ratio import student_quantile, student_tails

FEWEST_FREEDOM = 5.0
"""Degrees of freedom below which a difference is no proof: its interval rests on what a handful of numbers say of their
own spread."""

ASSUMED = Spread(0.03, 5.0)
"""From day to day, where nothing is known of it: sessions of one model on one machine mostly differ by 0.4 to 0.6 %,
and by 3 % where their memory lies otherwise."""


@dataclass(frozen=True, slots=True)
class LaunchDifference:
    """mean(head) - mean(base) in natural logarithms, with its two-sided interval.

    Attributes
    ----------
    freedom : degrees of freedom that the launches give.
    assumed : nothing is known of a variance that counts here, and a wide one was assumed.
    p_value : two-sided, of no difference.
    error : standard error.
    """

    value: float
    low: float
    high: float
    freedom: float
    assumed: bool
    p_value: float
    error: float

    @property
    def knows_noise(self) -> bool:
        """Whether the launches know their own noise well enough for a proof."""
        return not self.assumed and self.freedom >= FEWEST_FREEDOM


def percent(log_change: float) -> float:
    """Return a difference of logarithms as a relative change in percent."""
    # Beyond it no float has the result; figures of others may be that large.
    return 100.0 * math.expm1(min(log_change, 700.0))


@dataclass(frozen=True, slots=True)
class LaunchChange:
    """The launches of a base and those of a head, natural logarithms, and how such launches differ.

    Attributes
    ----------
    base, head : launches of each side; for all but `mean` at least one.
    noise : of launches of this check on this machine.
    """

    base: tuple[Launch, ...]
    head: tuple[Launch, ...]
    noise: LaunchNoise

    @property
    def mean(self) -> float | None:
        """Return mean(head) - mean(base), each launch alike; ``None`` where a side has no launch."""
        if not self.base or not self.head:
            return None
        before, after = (math.fsum(launch.value for launch in side) / len(side) for side in (self.base, self.head))
        return after - before

    def less(self, shift: float) -> LaunchChange:
        """Return the change without a `shift` that the whole machine had."""
        return replace(self, head=tuple(replace(launch, value=launch.value - shift) for launch in self.head))

    def difference(self, confidence: float = 0.95) -> LaunchDifference:
        """Compare the means of both sides; `confidence` is that of the two-sided interval, 0..1."""
        value, of_launches, of_days, excess = self._design()
        variance, freedom, assumed = _variance(of_launches, of_days, self.noise)
        error = math.sqrt(variance + excess)
        used = max(freedom, ASSUMED.freedom) if assumed else freedom
        reach = error * student_quantile(confidence, used)
        t = abs(value) / error if error else math.inf if value else 0.0
        p_value = student_tails(t, used)
        return LaunchDifference(value, value - reach, value + reach, freedom, assumed, p_value, error)

    def launches_needed(self, limit: float) -> int | None:
        """Return how many more launches of the head on its last day would put the interval on one side of a limit.

        The variances are taken to stay as they are, and the difference to come nearer to the limit by the standard
        error of what the mean of the head moves. ``None`` where no number up to 40 does, because what
        differs from day to day, or the base, is the larger part of the noise.

        Parameters
        ----------
        limit : natural logarithm, in the unit of the values.
        """

        def decides(more: int) -> bool:
            outcome, known = self._with_more(more), len(self.head)
            # The variance of (mean of all - mean of those so far).
            moved = math.sqrt(_within(self.noise).variance * (1.0 / known - 1.0 / (known + more)))
            return outcome.knows_noise and not outcome.low - moved <= limit <= outcome.high + moved

        return next(filter(decides, range(1, 41)), None)

    def narrows_with(self, more: int) -> bool:
        """Return whether `more` launches of the head on its last day are worth their time.

        They are where they narrow the interval by a fifth at least, or make it a proof. What differs from day to day no
        number of launches of one day narrows.
        """
        now, then = self.difference(), self._with_more(more)
        return then.knows_noise and (not now.knows_noise or then.high - then.low <= 0.8 * (now.high - now.low))

    def _with_more(self, more: int) -> LaunchDifference:
        """Return the difference with so many more launches of the head on its last day, as they are expected."""
        expected = Launch(statistics.fmean(launch.value for launch in self.head), self.head[-1].day)
        within = _within(self.noise)
        # Each one more tells of launches of one day, too.
        noise = replace(self.noise, within=replace(within, freedom=within.freedom + more))
        return LaunchChange(self.base, (*self.head, *[expected] * more), noise).difference()

    def _design(self) -> tuple[float, float, float, float]:
        """Return the generalized least squares estimate from the means of each day and side, and its variances.

        Returns
        -------
        value : the estimate.
        of_launches : factor of sigma^2, the sum of the squared weights of the launches.
        of_days : factor of tau^2, the sum over days of the squared weight of each; 0 where all of them cancel out.
        excess : variance that launches bring whose own rounds vary by more than launches do.
        """
        groups = (self.base, self.head)
        cells = [
            (day, side, values) for side, group in enumerate(groups) for day, values in group_by_day(group).items()
        ]
        counts = np.array([len(values) for _, _, values in cells], dtype=np.float64)
        means = np.array([statistics.fmean(values) for _, _, values in cells])
        numbers = {day: number for number, day in enumerate(dict.fromkeys(day for day, _, _ in cells))}
        place = np.array([numbers[day] for day, _, _ in cells])
        sides = np.array([side for _, side, _ in cells])
        sigma, tau = _parts(self.noise)
        covariance = np.diag(sigma / counts) + tau * (place[:, None] == place[None, :])
        columns = np.stack([sides == 0, sides == 1], axis=1).astype(np.float64)
        solved = np.linalg.solve(covariance, columns)
        estimator = np.linalg.solve(columns.T @ solved, solved.T)
        weights = estimator[1] - estimator[0]
        of_days = np.bincount(place, weights=weights)
        by_cell = {
            (day, side): weight / count for (day, side, _), weight, count in zip(cells, weights, counts, strict=True)
        }
        excess = sum(
            by_cell[launch.day, side] ** 2 * max(0.0, launch.error**2 - self.noise.within.variance)
            for side, group in enumerate(groups)
            for launch in group
        )
        days = float(of_days @ of_days)
        squares = float(np.sum(weights**2 / counts))
        return float(weights @ means), squares, days if days > 1e-9 else 0.0, float(excess)


def _within(noise: LaunchNoise) -> Spread:
    """Return how launches of one day vary, an assumption without a degree of freedom where nothing is known of it."""
    return noise.within if noise.within.freedom else replace(ASSUMED, freedom=0.0)


def _parts(noise: LaunchNoise) -> tuple[float, float]:
    """Return sigma^2 and tau^2 as far as the weights need them: only their ratio counts.

    Where nothing is known of days, all weight lies on those that cancel out, if there are any.
    """
    sigma = noise.within.variance if noise.within.freedom else noise.between.variance / 2.0
    if not sigma > 0.0:
        return 1.0, 1.0
    if not noise.between.freedom:
        return 1.0, 1e7
    return 1.0, max(0.0, noise.between.variance - sigma / noise.per_day) / sigma


def _variance(of_launches: float, of_days: float, noise: LaunchNoise) -> tuple[float, float, bool]:
    """Return the variance of the estimate, its degrees of freedom, and whether a part of it had to be assumed."""
    within, between = noise.within, noise.between
    if not within.freedom:
        # One launch on each day: the mean of a day is a launch, and varies by at least as much as launches of one day.
        within = between
    if not of_days and within.freedom:
        return of_launches * within.variance, within.freedom, False
    if not of_days or not between.freedom:
        sigma = within if within.freedom else ASSUMED
        return of_launches * sigma.variance + of_days * ASSUMED.variance, 0.0, True
    # A head with more launches a day than the base would take a part of sigma^2 off; without that the variance is an
    # upper bound, whose degrees of freedom are those of a sum and not of a difference.
    of_within = max(0.0, of_launches - of_days / noise.per_day)
    return *_satterthwaite((of_days, between), (of_within, within)), False


def _satterthwaite(*terms: tuple[float, Spread]) -> tuple[float, float]:
    """Return a sum of factors times mean squares, and its degrees of freedom."""
    parts = [(factor * spread.variance, spread.freedom) for factor, spread in terms if factor]
    total = sum(value for value, _ in parts)
    if total == 0.0:
        return 0.0, min(freedom for _, freedom in parts)
    return total, 1.0 / sum((value / total) ** 2 / freedom for value, freedom in parts)
