"""Launches with days as clusters: their noise, and the difference of two groups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pytest_quant.result import LaunchFigures, LaunchNoise
from pytest_quant.spec import UNKNOWN, Spread
from pytest_quant.stats.launch_difference import LaunchChange, LaunchDifference
from pytest_quant.stats.launches import (
    Launch,
    common_noise,
    days_of,
    logs_of,
    moderate_noise,
    moderate_spread,
    noise_of,
    noise_of_steps,
    pool,
)


def launched(values: Iterable[float], days: Iterable[int]) -> list[Launch]:
    """Launches with these values on these days."""
    return [Launch(value, day) for value, day in zip(values, days, strict=True)]


def change(base: Sequence[Launch], head: Sequence[Launch], noise: LaunchNoise) -> LaunchChange:
    """The change between two lists of launches."""
    return LaunchChange(tuple(base), tuple(head), noise)


def difference(base: Sequence[Launch], head: Sequence[Launch], noise: LaunchNoise) -> LaunchDifference:
    """How far their means lie apart."""
    return change(base, head, noise).difference()


def test_noise_is_found_within_and_between_days() -> None:
    """Two days of two launches, and a level of one day, whose own difference is no noise."""
    result = noise_of([launched([0.0, 2.0, 4.0, 8.0], [1, 1, 2, 2]), launched([100.0, 101.0], [3, 3])])
    assert (result.within.variance, result.within.freedom) == pytest.approx(((2.0 + 8.0 + 0.5) / 3.0, 3.0))
    assert (result.between.variance, result.between.freedom, result.per_day) == pytest.approx((12.5, 1.0, 2.0))
    assert noise_of([launched([1.0], [1])]) == LaunchNoise()


def test_noise_of_steps_does_not_mind_a_change_of_level() -> None:
    """40 days with a step of thirty standard deviations amid them; the plain variance is over two hundred times it."""
    random = np.random.default_rng(1)
    values = random.normal(0.0, 0.01, 400) + np.where(np.arange(400) < 200, 0.0, 0.3)
    days = [[each] for each in launched(values, range(400))]
    assert noise_of_steps(days).between.variance == pytest.approx(1e-4, rel=0.25)
    assert noise_of([[each for (each,) in days]]).between.variance > 0.02
    assert noise_of_steps([]) == LaunchNoise()


def test_the_noise_of_one_series_borrows_from_the_others() -> None:
    """As much as four degrees of freedom are worth, and no more of days than one series knows of them."""
    series = [LaunchNoise(Spread(1.0, 3.0), Spread(2.0, 9.0), 3.0)] * 5
    common = common_noise(series)
    assert common == LaunchNoise(Spread(1.0, 4.0), Spread(2.0, 4.0), 3.0)
    fresh = moderate_noise(LaunchNoise(), common)
    assert fresh == common
    assert moderate_noise(series[0], common).between.freedom == 13.0
    assert common_noise(series[:2]) == LaunchNoise()
    assert common_noise([LaunchNoise(between=Spread(2.0, 1.0))] * 5).between.freedom == 1.0


def test_variances_are_pooled_by_their_degrees_of_freedom() -> None:
    """40 groups of one true variance tell it within a fifth; groups of which nothing is known do not count."""
    random = np.random.default_rng(4)
    groups = [Spread(math.sqrt(square), 8.0) for square in 3.0 * random.chisquare(8, 40) / 8.0]
    assert pool(groups, 320.0).variance == pytest.approx(3.0, rel=0.2)
    weighed = [Spread(1.0, 1.0), Spread(2.0, 2.0), Spread(6.0, 3.0), Spread(99.0, 0.0)]
    of_three = pool(weighed, 6.0)
    assert (of_three.variance, of_three.freedom) == pytest.approx(((1.0 + 8.0 + 108.0) / 6.0, 4.0))
    assert pool([*weighed[:2], weighed[3]], 3.0) == UNKNOWN
    assert pool([Spread(0.0, 4.0)] * 3, 12.0) == Spread(0.0, 4.0)


def test_the_posterior_is_the_mean_by_degrees_of_freedom() -> None:
    """Which add up."""
    both = moderate_spread(Spread(1.0, 2.0), Spread(2.0, 6.0))
    assert (both.variance, both.freedom) == pytest.approx((3.25, 8.0))
    assert moderate_spread(Spread(1.0, 2.0), UNKNOWN) == Spread(1.0, 2.0)
    assert moderate_spread(UNKNOWN, UNKNOWN) == UNKNOWN


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


def test_a_figure_of_launches_is_taken_as_logarithms() -> None:
    """With the day and the error of each launch; one without the figure, or with 0, is left out."""
    launches = [
        LaunchFigures("2026-01-01T10:00:00+00:00", 2.0, 0.5, error=0.01),
        LaunchFigures("2026-01-02T20:00:00+00:00", None, 0.25),
        LaunchFigures("2026-01-03T20:00:00+00:00", 0.0, None),
    ]
    days = days_of(launch.started_at for launch in launches)
    assert logs_of(launches, "speedup", days) == (Launch(math.log(2.0), 0, 0.01),)
    assert logs_of(launches, "candidate_p50_ms", days) == (Launch(math.log(0.5), 0, 0.01), Launch(math.log(0.25), 1))


def test_launches_of_one_day_are_students_test() -> None:
    """Base and head share the day, whose own variance cancels out: the pooled test of Student."""
    base, head = [0.1, 0.4, 0.2, 0.6], [0.9, 0.5, 0.7]
    expected = scipy_stats.ttest_ind(head, base)
    span = expected.confidence_interval(0.95)
    groups = launched(base, [1] * 4), launched(head, [1] * 3)
    within = noise_of(groups)
    # Both sides are one day of one level each; that both are on day 1 is known to the difference alone.
    result = difference(*groups, within)
    assert result.p_value == pytest.approx(expected.pvalue)
    assert (result.low, result.high) == pytest.approx((span.low, span.high))
    assert (result.freedom, result.assumed) == (5.0, False)


def test_one_launch_a_day_is_students_test_on_days() -> None:
    """A new day against n earlier ones: the standard error is s sqrt(1 + 1/n), with n - 1 degrees of freedom."""
    values = [0.1, 0.4, 0.2, 0.6, 0.3, 0.5, 0.2]
    base = launched(values, range(7))
    result = difference(base, launched([0.9], [7]), noise_of([base]))
    error = np.std(values, ddof=1) * math.sqrt(1.0 + 1.0 / 7.0)
    assert result.value == pytest.approx(0.9 - np.mean(values))
    assert result.error == pytest.approx(error)
    assert result.freedom == pytest.approx(6.0)
    assert result.high - result.value == pytest.approx(error * scipy_stats.t.ppf(0.975, 6))


def test_five_launches_of_one_day_are_no_five_days() -> None:
    """The day of the head counts in full, however many launches it has."""
    base = launched([0.1, 0.4, 0.2, 0.6, 0.3, 0.5, 0.2], range(7))
    single, five = (difference(base, launched([0.9] * n, [7] * n), noise_of([base])) for n in (1, 5))
    assert five.error == pytest.approx(single.error)


def test_two_days_of_which_nothing_is_known_prove_nothing() -> None:
    """Five launches on one day against five on another, with a spread a hundred times smaller than the difference."""
    base, head = launched([0.0, 0.001, 0.002, 0.001, 0.0], [1] * 5), launched([0.1] * 5, [2] * 5)
    result = difference(base, head, noise_of([base, head]))
    assert result.assumed
    assert not result.knows_noise
    assert result.low < 0.0 < result.high
    same_day = difference(base, launched([0.1] * 5, [1] * 5), noise_of([base, head]))
    assert same_day.knows_noise
    assert same_day.low > 0.09


def test_a_shared_day_alone_counts_where_nothing_is_known_of_days() -> None:
    """Of a head on two days only the launches beside the base's tell anything."""
    base = launched([0.0, 0.01, 0.02, 0.01], [1] * 4)
    head = launched([0.03, 0.05, 9.0], [1, 1, 2])
    result = difference(base, head, noise_of([base, head[:2]]))
    assert result.value == pytest.approx(0.04 - 0.01, abs=1e-5)
    assert not result.assumed


def test_fewer_than_five_degrees_of_freedom_are_never_telling() -> None:
    """Five days have four."""
    for days, telling in ((5, False), (6, True)):
        base = launched([0.01 * (day % 2) for day in range(days)], range(days))
        assert difference(base, launched([5.0], [99]), noise_of([base])).knows_noise is telling


def test_a_launch_that_is_noisy_within_itself_counts_with_that() -> None:
    """Its own rounds say more of it than quiet days before."""
    base = launched([0.0, 0.001] * 4, range(8))
    quiet, loud = (difference(base, [Launch(0.0, 9, error)], noise_of([base])) for error in (0.0, 0.05))
    assert quiet.error < 0.001
    assert loud.error == pytest.approx(0.05, rel=0.01)


def test_launches_that_would_decide() -> None:
    """On a shared day more launches narrow the interval; on a new day no number of them does."""
    base = launched(np.linspace(-0.02, 0.02, 9), [1] * 9)
    head = launched([0.01, 0.02], [1, 1])
    more = change(base, head, noise_of([base, head])).launches_needed(0.035)
    assert more is not None
    noise = noise_of([base, head])
    now, then = (
        difference(
            base,
            [*head, *launched([0.015] * n, [1] * n)],
            replace(noise, within=replace(noise.within, freedom=noise.within.freedom + n)),
        ).high
        for n in (0, more)
    )
    assert now > 0.035 >= then
    days = launched(np.linspace(-0.02, 0.02, 9), range(9))
    assert change(days, launched([0.025], [99]), noise_of([days])).launches_needed(0.04) is None


def test_a_promise_beside_one_launch_of_the_base_is_kept() -> None:
    """Of 300 worlds whose noise is as it is known to be, the launches that are asked for decide in nine of ten."""
    random = np.random.default_rng(0)
    noise, limit = LaunchNoise(Spread(0.03, 6.0)), math.log(1.05)
    kept = []
    for true in np.linspace(0.0, 0.25, 300):
        base, head = launched(random.normal(0.0, 0.03, 1), [1]), launched(random.normal(true, 0.03, 1), [1])
        more = change(base, head, noise).launches_needed(limit)
        if more is not None:
            longer = [*head, *launched(random.normal(true, 0.03, more), [1] * more)]
            outcome = difference(base, longer, noise)
            kept.append(not outcome.low <= limit <= outcome.high)
    assert np.mean(kept) > 0.9


def world(
    random: np.random.Generator, days: Sequence[Sequence[int]], launch_sd: float, day_sd: float
) -> tuple[list[Launch], ...]:
    """Base and head on these days, without a change between them."""
    effects = random.normal(0.0, day_sd, 1 + max(map(max, days)))
    return tuple(launched(effects[list(side)] + random.normal(0.0, launch_sd, len(side)), side) for side in days)


WORLDS = [
    ("ten days, a new one", [[*range(10)], [10]]),
    ("ten days, five launches on a new one", [[*range(10)], [10] * 5]),
    ("one day", [[0] * 10, [0] * 5]),
    ("eight days of two, five launches on a new one", [[day for day in range(8) for _ in range(2)], [8] * 5]),
    ("ten days, five launches on the last", [[*range(10)], [9] * 5]),
]


@pytest.mark.parametrize("day_sd", [0.0, 0.01])
@pytest.mark.parametrize("days", [days for _, days in WORLDS], ids=[name for name, _ in WORLDS])
def test_an_interval_misses_the_truth_on_each_side_in_three_percent_at_most(
    days: list[list[int]], day_sd: float
) -> None:
    """600 worlds; above 27 misses on a side the rate is above 3 %, up to a chance of 1 in 500."""
    random = np.random.default_rng(7)
    result = []
    for _ in range(600):
        base, head = world(random, days, 0.01, day_sd)
        result.append(difference(base, head, noise_of([base, head])))
    most = int(scipy_stats.binom.ppf(0.998, 600, 0.03))
    assert sum(each.low > 0.0 for each in result) <= most
    assert sum(each.high < 0.0 for each in result) <= most
