"""Launches of one check, the days that they are of, and how much they vary within a day and from day to day.

A launch is a fresh process and gives one number, the logarithm of a ratio or of a time. Launches differ by more than
their rounds tell (where memory lies, which clock the processor took), and those of one day share what differs from day
to day, so that their number is not the number of independent values (Kalibera and Jones 2013, Rigorous Benchmarking in
Reasonable Time, ISMM 63-74). The model has two levels, launch within day and day:

    value = level + day + launch,   Var(day) = tau^2,  Var(launch) = sigma^2.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter

from pytest_quant.result import LatencyFigures, LaunchFigures, LaunchNoise
from pytest_quant.spec import UNKNOWN, Spread
from pytest_quant.stats.means import NORMAL_MAD

_NEVER = datetime.min.replace(tzinfo=UTC)


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


def launch_of(latency: LatencyFigures, started_at: str) -> LaunchFigures:
    """Return the figures of one launch; `started_at` is ISO 8601 in UTC."""
    return LaunchFigures(started_at, latency.speedup, latency.candidate_p50_ms, latency.reference_p50_ms, latency.error)


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
    number, first, last = -1, _NEVER, _NEVER
    for text, time in sorted(((text, time) for text, time in read.items() if time is not None), key=itemgetter(1)):
        soon = time - last <= timedelta(hours=1) and time - first <= timedelta(hours=24)
        goes_on = time.date() == first.date() or soon
        if number < 0 or not goes_on:
            number, first = number + 1, time
        days[text], last = number, time
    strange = sorted(text for text, time in read.items() if time is None)
    return days | {text: number + 1 + place for place, text in enumerate(strange)}


def logs_of(launches: Iterable[LaunchFigures], figure: str, days: Mapping[str, int]) -> tuple[Launch, ...]:
    """Return the natural logarithm of a field of each launch that has it; `days` are the days of all starts."""
    figures = ((launch, getattr(launch, figure)) for launch in launches)
    return tuple(
        Launch(math.log(value), days[launch.started_at], launch.error or 0.0)
        for launch, value in figures
        if value is not None and value > 0.0
    )


def noise_of(levels: Iterable[Sequence[Launch]]) -> LaunchNoise:
    """Return the noise of launches.

    Parameters
    ----------
    levels : groups of launches of one true value each, all launches since one change say.
    """
    within, within_freedom, between, between_freedom = 0.0, 0.0, 0.0, 0.0
    counts: list[int] = []
    for launches in levels:
        days = group_by_day(launches)
        for values in days.values():
            within += _squares(values)
            within_freedom += len(values) - 1
        if len(days) > 1:
            between += _squares([statistics.fmean(values) for values in days.values()])
            between_freedom += len(days) - 1
            counts += map(len, days.values())
    per_day = statistics.harmonic_mean(counts) if counts else 1.0
    return LaunchNoise(_mean_square(within, within_freedom), _mean_square(between, between_freedom), per_day)


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
    days = group_by_day([launch for launches in levels for launch in launches])
    means = [statistics.fmean(values) for values in days.values()]
    steps = [abs(after - before) for before, after in itertools.pairwise(means)]
    # Simulated on normal values for 5 to 60 days each difference is worth 0.31 to 0.49 degrees of freedom.
    freedom = 0.3 * len(steps)
    between = Spread(NORMAL_MAD * statistics.median(steps) / math.sqrt(2.0), freedom) if steps else UNKNOWN
    per_day = statistics.harmonic_mean(list(map(len, days.values()))) if days else 1.0
    return replace(within, between=between, per_day=per_day)


def update_noise(noise: LaunchNoise, launches: Sequence[Launch]) -> LaunchNoise:
    """Return `noise` updated by further launches of the same days."""
    return replace(noise, within=moderate_spread(noise.within, noise_of([launches]).within))


def common_noise(series: Sequence[LaunchNoise]) -> LaunchNoise:
    """Return what the noise of several series on one machine has in common, to moderate the noise of each.

    A day may move all series alike, so that many of them know it no better than the one with the most days.

    Parameters
    ----------
    series : the noise of each one; fewer than three have nothing in common.
    """
    within = pool([noise.within for noise in series], sum(noise.within.freedom for noise in series))
    most_freedom = max((noise.between.freedom for noise in series), default=0.0)
    between = pool([noise.between for noise in series], most_freedom)
    counts = [noise.per_day for noise in series if noise.between.freedom and between.freedom]
    return LaunchNoise(within, between, statistics.median(counts) if counts else 1.0)


def pool(spreads: Sequence[Spread], most_freedom: float) -> Spread:
    """Return the mean of variances by their degrees of freedom, as what is known of one more of their kind.

    Parameters
    ----------
    spreads : of single series; those without a degree of freedom are left out.
    most_freedom : that all of them together are known with.

    Returns
    -------
    A spread with four degrees of freedom at most; an unknown one for fewer than three series.
    """
    measured = [spread for spread in spreads if spread.freedom > 0.0]
    # With fewer a machine cannot be told from a model.
    if len(measured) < 3:
        return UNKNOWN
    squares = math.fsum(spread.freedom * spread.variance for spread in measured)
    mean = _mean_square(squares, math.fsum(spread.freedom for spread in measured))
    # Models differ by twice as much or by half, so that a handful of launches of its own soon count for more.
    return replace(mean, freedom=min(4.0, most_freedom))


def moderate_spread(own: Spread, prior: Spread) -> Spread:
    """Return the posterior: the mean of both variances by degrees of freedom, which add up.

    Smyth (2004), Statistical Applications in Genetics and Molecular Biology 3, article 3, equation 3.4.
    """
    return _mean_square(own.freedom * own.variance + prior.freedom * prior.variance, own.freedom + prior.freedom)


def moderate_noise(own: LaunchNoise, common: LaunchNoise) -> LaunchNoise:
    """Return the noise of one series, drawn to what all series have in common, see `common_noise`."""
    per_day = own.per_day if own.between.freedom else common.per_day
    return LaunchNoise(
        moderate_spread(own.within, common.within), moderate_spread(own.between, common.between), per_day
    )


def _mean_square(squares: float, freedom: float) -> Spread:
    """Return the spread whose variance is a sum of squares over its degrees of freedom; an unknown one without any."""
    return Spread(math.sqrt(squares / freedom), freedom) if freedom > 0.0 else UNKNOWN


def group_by_day(launches: Iterable[Launch]) -> Mapping[Hashable, list[float]]:
    """Return the values of launches by their day, in the given order."""
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
