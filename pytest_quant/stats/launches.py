"""Launches of one check judged: the difference of two groups of launches, with days as clusters.

A launch is a fresh process and gives one number, the logarithm of a ratio or of a time. Launches differ by more than
their rounds tell (where memory lies, which clock the processor took), and those of one day share what differs from day
to day, so that their number is not the number of independent values (Kalibera and Jones 2013, Rigorous Benchmarking in
Reasonable Time, ISMM 63-74). The model has two levels, launch within day and day:

    value = level + day + launch,   Var(day) = tau^2,  Var(launch) = sigma^2.

The difference of head and base is the generalized least squares estimate, so that a day on which both were launched
cancels out, and a day that only one of them has counts in full. Its variance is a sum of mean squares, the degrees of
freedom are those of Satterthwaite (1946), Biometrics Bulletin 2, 110-114.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from pytest_quant.result import LatencyResult, LaunchFigures, LaunchNoise
from pytest_quant.stats.moderation import Variance, common_variance, moderated
from pytest_quant.stats.ratio import student_quantile, student_tails

FEWEST_FREEDOM = 5.0
"""Degrees of freedom below which a difference is no proof: its interval rests on what a handful of numbers say of their
own spread."""

ASSUMED_SD = 0.03
"""Standard deviation from day to day, in natural logarithms, where nothing is known of it: sessions of one model on
one machine mostly differ by 0.4 to 0.6 %, and by 3 % where their memory lies otherwise."""

ASSUMED_FREEDOM = 5.0
"""Degrees of freedom of that assumption in the interval."""

MOST_LAUNCHES = 40
"""More launches of one head are never proposed."""

_WORTH = 0.8
_GAP = timedelta(hours=1)
_MOST_SPAN = timedelta(hours=24)
_MAD_OF_NORMAL = 0.6744897501960817
_SHARE_OF_DIFFERENCES = 0.3
"""Degrees of freedom of a variance from the median of successive differences, by their number: simulated on normal
values for 5 to 60 days, 0.31 to 0.49."""

_CANCELLED = 1e-9


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch.

    Attributes
    ----------
    value : natural logarithm of a ratio or of a time.
    day : equal for launches of one day, see `days_of`.
    error : standard error of the value within the launch; 0 where it is not known.
    """

    value: float
    day: Hashable
    error: float = 0.0


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
    def telling(self) -> bool:
        """Whether the launches know their own noise well enough for a proof."""
        return not self.assumed and self.freedom >= FEWEST_FREEDOM


def launch_of(latency: LatencyResult, started_at: str) -> LaunchFigures:
    """Return the figures of one launch; `started_at` is ISO 8601 in UTC."""
    pairs = zip(latency.reference.medians_ns, latency.candidate.medians_ns, strict=False)
    return LaunchFigures(
        started_at=started_at,
        speedup=latency.speedup,
        candidate_p50_ms=latency.candidate_p50_ms,
        reference_p50_ms=latency.reference_p50_ms,
        error=error_of_median(
            [math.log(reference / candidate) for reference, candidate in pairs if min(reference, candidate) > 0.0]
        ),
    )


def error_of_median(values: Sequence[float]) -> float | None:
    """Return the standard error of the median of independent values, ``None`` for fewer than two.

    That of normal values, sqrt(pi / 2) sigma / sqrt(n) (Cramer 1946, section 28.5), with sigma from the median absolute
    deviation.
    """
    if len(values) < 2:
        return None
    middle = statistics.median(values)
    sigma = statistics.median(abs(value - middle) for value in values) / _MAD_OF_NORMAL
    return math.sqrt(math.pi / 2.0 / len(values)) * sigma


def days_of(times: Iterable[str]) -> dict[str, int]:
    """Return the number of its day for each time.

    A day is that of UTC, but a session that runs over midnight is not cut: a launch within an hour of the one before
    belongs to its day, for up to 24 hours.

    Parameters
    ----------
    times : ISO 8601, in UTC where no zone is named; one that is no time is a day by itself.
    """
    read = {text: _time(text) for text in set(times)}
    days: dict[str, int] = {}
    number, first, last = -1, None, None
    for text, time in sorted(((text, time) for text, time in read.items() if time is not None), key=lambda one: one[1]):
        goes_on = (
            first is not None
            and last is not None
            and (time.date() == first.date() or (time - last <= _GAP and time - first <= _MOST_SPAN))
        )
        if not goes_on:
            number, first = number + 1, time
        days[text], last = number, time
    strange = sorted(text for text, time in read.items() if time is None)
    return days | {text: number + 1 + place for place, text in enumerate(strange)}


def noise_of(levels: Iterable[Sequence[Launch]]) -> LaunchNoise:
    """Return the noise of launches.

    Parameters
    ----------
    levels : groups of launches of one true value each, all launches since one change say.
    """
    within, within_freedom, between, between_freedom = 0.0, 0.0, 0.0, 0.0
    counts: list[int] = []
    for launches in levels:
        days = _by_day(launches)
        for values in days.values():
            within += _squares(values)
            within_freedom += len(values) - 1
        if len(days) > 1:
            between += _squares([statistics.fmean(values) for values in days.values()])
            between_freedom += len(days) - 1
            counts += map(len, days.values())
    return LaunchNoise(
        within=within / within_freedom if within_freedom else 0.0,
        within_freedom=within_freedom,
        between=between / between_freedom if between_freedom else 0.0,
        between_freedom=between_freedom,
        per_day=statistics.harmonic_mean(counts) if counts else 1.0,
    )


def noise_of_steps(levels: Sequence[Sequence[Launch]]) -> LaunchNoise:
    """Return the noise of launches whose true value may have changed now and then.

    The variance between days is that of the median absolute difference of successive days, which a few steps hardly
    move (von Neumann 1941, Annals of Mathematical Statistics 12, 367-395; Rousseeuw and Croux 1993, JASA 88,
    1273-1283).

    Parameters
    ----------
    levels : groups of launches of one true value each, one commit's say, oldest first.
    """
    within = noise_of(levels)
    days = _by_day([launch for launches in levels for launch in launches])
    means = [statistics.fmean(values) for values in days.values()]
    steps = [abs(after - before) for before, after in itertools.pairwise(means)]
    freedom = _SHARE_OF_DIFFERENCES * len(steps)
    between = statistics.median(steps) / _MAD_OF_NORMAL if steps else 0.0
    return replace(
        within,
        between=between**2 / 2.0,
        between_freedom=freedom,
        per_day=statistics.harmonic_mean(list(map(len, days.values()))) if days else 1.0,
    )


def with_launches(noise: LaunchNoise, launches: Sequence[Launch]) -> LaunchNoise:
    """Return `noise` with what further launches tell of those of one day."""
    more = noise_of([launches])
    freedom = noise.within_freedom + more.within_freedom
    if not freedom:
        return noise
    within = (noise.within * noise.within_freedom + more.within * more.within_freedom) / freedom
    return replace(noise, within=within, within_freedom=freedom)


def common_noise(series: Sequence[LaunchNoise]) -> LaunchNoise:
    """Return what the noise of several series on one machine has in common, to moderate that of each.

    A day may move all series alike, so that many of them know it no better than the one with the most days.

    Parameters
    ----------
    series : the noise of each one; fewer than three have nothing in common.
    """
    within = common_variance(
        [Variance(one.within, one.within_freedom) for one in series], sum(one.within_freedom for one in series)
    )
    between = common_variance(
        [Variance(one.between, one.between_freedom) for one in series],
        max((one.between_freedom for one in series), default=0.0),
    )
    counts = [one.per_day for one in series if one.between_freedom and between.freedom]
    return LaunchNoise(
        within.value, within.freedom, between.value, between.freedom, statistics.median(counts) if counts else 1.0
    )


def moderated_noise(own: LaunchNoise, common: LaunchNoise) -> LaunchNoise:
    """Return the noise of one series, drawn to what all series have in common, see `common_noise`."""
    within = moderated(Variance(own.within, own.within_freedom), Variance(common.within, common.within_freedom))
    between = moderated(Variance(own.between, own.between_freedom), Variance(common.between, common.between_freedom))
    per_day = own.per_day if own.between_freedom else common.per_day
    return LaunchNoise(within.value, within.freedom, between.value, between.freedom, per_day)


def difference(
    base: Sequence[Launch], head: Sequence[Launch], noise: LaunchNoise, *, confidence: float = 0.95
) -> LaunchDifference:
    """Compare the means of two groups of launches.

    Parameters
    ----------
    base, head : at least one launch each.
    noise : of launches of this check on this machine.
    confidence : of the two-sided interval, 0..1.
    """
    design = _design(base, head, noise)
    variance, freedom, assumed = _variance(design, noise)
    error = math.sqrt(variance + design.excess)
    used = max(freedom, ASSUMED_FREEDOM) if assumed else freedom
    if error == 0.0:
        p_value = 1.0 if design.value == 0.0 else 0.0
        return LaunchDifference(design.value, design.value, design.value, freedom, assumed, p_value, 0.0)
    reach = error * student_quantile(confidence, used)
    p_value = student_tails(abs(design.value) / error, used)
    return LaunchDifference(design.value, design.value - reach, design.value + reach, freedom, assumed, p_value, error)


def launches_needed(
    base: Sequence[Launch], head: Sequence[Launch], noise: LaunchNoise, *, limit: float, confidence: float = 0.95
) -> int | None:
    """Return how many more launches of the head on its last day would put the interval on one side of a limit.

    The difference and the variances are taken to stay as they are. ``None`` where no number up to `MOST_LAUNCHES` does,
    because what differs from day to day, or the base, is the larger part of the noise.

    Parameters
    ----------
    base, head, noise, confidence : as in `difference`.
    limit : natural logarithm, in the unit of the values.
    """

    def decides(more: int) -> bool:
        found = _with_more(base, head, noise, more, confidence)
        return found.telling and not found.low <= limit <= found.high

    fewest = bisect.bisect_left(range(1, MOST_LAUNCHES + 1), True, key=decides) + 1
    return fewest if fewest <= MOST_LAUNCHES else None


def launches_narrow(base: Sequence[Launch], head: Sequence[Launch], noise: LaunchNoise, more: int) -> bool:
    """Tell whether more launches of the head on its last day are worth their time.

    They are where they narrow the interval by a fifth at least, or make it a proof. What differs from day to day no
    number of launches of one day narrows.

    Parameters
    ----------
    base, head, noise : as in `difference`.
    more : how many more.
    """
    now, then = difference(base, head, noise), _with_more(base, head, noise, more, 0.95)
    return then.telling and (not now.telling or then.high - then.low <= _WORTH * (now.high - now.low))


def _with_more(
    base: Sequence[Launch], head: Sequence[Launch], noise: LaunchNoise, more: int, confidence: float
) -> LaunchDifference:
    """Return the difference with so many more launches of the head on its last day, as they are expected."""
    middle = statistics.fmean(launch.value for launch in head)
    # Each one more tells of launches of one day, too.
    known = noise if noise.within_freedom else replace(noise, within=ASSUMED_SD**2)
    then = replace(known, within_freedom=known.within_freedom + more)
    return difference(base, [*head, *[Launch(middle, head[-1].day)] * more], then, confidence=confidence)


@dataclass(frozen=True, slots=True)
class _Design:
    """The estimate, and what it takes of each variance.

    Attributes
    ----------
    launches : factor of sigma^2: the sum of the squared weights of the launches.
    days : factor of tau^2: the sum over days of the squared weight of each, 0 where all of them cancel out.
    excess : variance that launches bring whose own rounds vary by more than launches do.
    """

    value: float
    launches: float
    days: float
    excess: float


def _design(base: Sequence[Launch], head: Sequence[Launch], noise: LaunchNoise) -> _Design:
    """Return the generalized least squares estimate from the means of each day and side."""
    cells = [(day, side, values) for side, group in enumerate((base, head)) for day, values in _by_day(group).items()]
    counts = np.array([len(values) for _, _, values in cells], dtype=np.float64)
    means = np.array([statistics.fmean(values) for _, _, values in cells])
    numbers = {day: number for number, day in enumerate(dict.fromkeys(day for day, _, _ in cells))}
    place = np.array([numbers[day] for day, _, _ in cells])
    sides = np.array([side for _, side, _ in cells])
    sigma, tau = _parts(noise)
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
        by_cell[launch.day, side] ** 2 * max(0.0, launch.error**2 - noise.within)
        for side, group in enumerate((base, head))
        for launch in group
    )
    days = float(of_days @ of_days)
    return _Design(
        float(weights @ means), float(np.sum(weights**2 / counts)), days if days > _CANCELLED else 0.0, float(excess)
    )


def _parts(noise: LaunchNoise) -> tuple[float, float]:
    """Return sigma^2 and tau^2 as far as the weights need them, where only their ratio counts.

    Where nothing is known of days, all weight lies on those that cancel out, if there are any.
    """
    sigma = noise.within if noise.within_freedom else noise.between / 2.0
    if not sigma > 0.0:
        return 1.0, 1.0
    if not noise.between_freedom:
        return 1.0, 1e7
    return 1.0, max(0.0, noise.between - sigma / noise.per_day) / sigma


def _variance(design: _Design, noise: LaunchNoise) -> tuple[float, float, bool]:
    """Return the variance of the estimate, its degrees of freedom, and whether a part of it had to be assumed."""
    within = Variance(noise.within, noise.within_freedom)
    between = Variance(noise.between, noise.between_freedom)
    if not within.freedom:
        # One launch on each day: the mean of a day is a launch, and varies by at least as much as launches of one day.
        within = between
    if not design.days:
        return (design.launches * within.value, within.freedom, False) if within.freedom else _assumed(design, within)
    if not between.freedom:
        return _assumed(design, within)
    # A head with more launches a day than the base would take a part of sigma^2 off; without that the variance is an
    # upper bound, whose degrees of freedom are those of a sum and not of a difference.
    of_within = max(0.0, design.launches - design.days / noise.per_day)
    return *_satterthwaite((design.days, between), (of_within, within)), False


def _assumed(design: _Design, within: Variance) -> tuple[float, float, bool]:
    sigma = within.value if within.freedom else ASSUMED_SD**2
    return design.launches * sigma + design.days * ASSUMED_SD**2, 0.0, True


def _satterthwaite(*terms: tuple[float, Variance]) -> tuple[float, float]:
    """Return a sum of factors times mean squares, and its degrees of freedom."""
    parts = [(factor * variance.value, variance.freedom) for factor, variance in terms if factor]
    total = sum(value for value, _ in parts)
    if total == 0.0:
        return 0.0, min(freedom for _, freedom in parts)
    return total, 1.0 / sum((value / total) ** 2 / freedom for value, freedom in parts)


def _by_day(launches: Iterable[Launch]) -> Mapping[Hashable, list[float]]:
    days: dict[Hashable, list[float]] = {}
    for launch in launches:
        days.setdefault(launch.day, []).append(launch.value)
    return days


def _squares(values: Sequence[float]) -> float:
    middle = statistics.fmean(values)
    return math.fsum((value - middle) ** 2 for value in values)


def _time(text: str) -> datetime | None:
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
