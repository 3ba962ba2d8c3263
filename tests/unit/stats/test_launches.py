"""Launches by their day, and their noise, against formulas and simulated worlds."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from pytest_quant.result import LaunchNoise
from pytest_quant.spec import UNKNOWN, Spread
from pytest_quant.stats.launches import (
    Launch,
    common_noise,
    days_of,
    moderated,
    moderated_noise,
    noise_of,
    noise_of_steps,
    pooled,
)


def launched(values: Iterable[float], days: Iterable[int]) -> list[Launch]:
    """Launches with these values on these days."""
    return [Launch(value, day) for value, day in zip(values, days, strict=True)]


def test_noise_is_found_within_and_between_days() -> None:
    """Two days of two launches, and a level of one day, whose own difference is no noise."""
    found = noise_of([launched([0.0, 2.0, 4.0, 8.0], [1, 1, 2, 2]), launched([100.0, 101.0], [3, 3])])
    assert (found.within.variance, found.within.freedom) == pytest.approx(((2.0 + 8.0 + 0.5) / 3.0, 3.0))
    assert (found.between.variance, found.between.freedom, found.per_day) == pytest.approx((12.5, 1.0, 2.0))
    assert noise_of([launched([1.0], [1])]) == LaunchNoise()


def test_noise_of_steps_does_not_mind_a_change_of_level() -> None:
    """40 days with a step of thirty standard deviations amid them; the plain variance is over two hundred times it."""
    random = np.random.default_rng(1)
    values = random.normal(0.0, 0.01, 400) + np.where(np.arange(400) < 200, 0.0, 0.3)
    days = [[one] for one in launched(values, range(400))]
    assert noise_of_steps(days).between.variance == pytest.approx(1e-4, rel=0.25)
    assert noise_of([[one for (one,) in days]]).between.variance > 0.02
    assert noise_of_steps([]) == LaunchNoise()


def test_the_noise_of_one_series_borrows_from_the_others() -> None:
    """As much as four degrees of freedom are worth, and no more of days than one series knows of them."""
    series = [LaunchNoise(Spread(1.0, 3.0), Spread(2.0, 9.0), 3.0)] * 5
    common = common_noise(series)
    assert common == LaunchNoise(Spread(1.0, 4.0), Spread(2.0, 4.0), 3.0)
    fresh = moderated_noise(LaunchNoise(), common)
    assert fresh == common
    assert moderated_noise(series[0], common).between.freedom == 13.0
    assert common_noise(series[:2]) == LaunchNoise()
    assert common_noise([LaunchNoise(between=Spread(2.0, 1.0))] * 5).between.freedom == 1.0


def test_variances_are_pooled_by_their_degrees_of_freedom() -> None:
    """40 groups of one true variance tell it within a fifth; groups of which nothing is known do not count."""
    random = np.random.default_rng(4)
    groups = [Spread(math.sqrt(square), 8.0) for square in 3.0 * random.chisquare(8, 40) / 8.0]
    assert pooled(groups, 320.0).variance == pytest.approx(3.0, rel=0.2)
    weighed = [Spread(1.0, 1.0), Spread(2.0, 2.0), Spread(6.0, 3.0), Spread(99.0, 0.0)]
    of_three = pooled(weighed, 6.0)
    assert (of_three.variance, of_three.freedom) == pytest.approx(((1.0 + 8.0 + 108.0) / 6.0, 4.0))
    assert pooled([*weighed[:2], weighed[3]], 3.0) == UNKNOWN
    assert pooled([Spread(0.0, 4.0)] * 3, 12.0) == Spread(0.0, 4.0)


def test_the_posterior_is_the_mean_by_degrees_of_freedom() -> None:
    """Which add up."""
    both = moderated(Spread(1.0, 2.0), Spread(2.0, 6.0))
    assert (both.variance, both.freedom) == pytest.approx((3.25, 8.0))
    assert moderated(Spread(1.0, 2.0), UNKNOWN) == Spread(1.0, 2.0)
    assert moderated(UNKNOWN, UNKNOWN) == UNKNOWN


def test_days_are_those_of_utc_and_a_session_over_midnight_is_not_cut() -> None:
    """An hour apart at most; what is no time is a day by itself."""
    times = [
        "2026-01-01T10:00:00+00:00",
        "2026-01-01T23:40:00+00:00",
        "2026-01-02T00:10:00+00:00",
        "2026-01-02T02:00:00+00:00",
        "2026-01-03T01:00:00+02:00",
        "yesterday",
    ]
    days = days_of(times)
    assert [days[time] for time in times] == [0, 0, 0, 1, 1, 2]
    stream = [f"2026-02-{day:02}T{hour:02}:30:00" for day in (1, 2, 3) for hour in range(24)]
    assert len(set(days_of(stream).values())) == 3, "launches every hour are no single day for ever"
