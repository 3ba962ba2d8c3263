"""Draws of noise: what sessions and launches scatter by, and the means of launches and of pairs of processes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy import stats

from pytest_quant.spec import Spread
from pytest_quant.stats import means
from pytest_quant.stats.means import (
    LAUNCH_LOOKS,
    LOOK_CONFIDENCE,
    PAIR_LOOKS,
    ValueWithError,
    mean_of_launches,
    mean_of_pairs,
    median_with_error,
    robust_sd,
    session_spread,
)
from tests.support.worlds import WORLDS, decide

NOTHING = Spread(0.0, 0.0)


def test_many_launches_have_the_interval_of_student() -> None:
    """Where nothing is known beforehand."""
    values = list(np.random.default_rng(3).normal(0.1, 0.02, 12))
    result = mean_of_launches(values, [0.0] * 12, NOTHING)
    expected = stats.t.interval(0.95, 11, np.mean(values), stats.sem(values))
    assert (result.value, result.low, result.high) == pytest.approx((np.mean(values), *expected))


def test_what_is_known_counts_by_its_degrees_of_freedom() -> None:
    """The variance is that of Smyth (2004), equation 3.4, with the launches' own errors in what is known."""
    values, errors = [0.0, 0.02, 0.01, -0.01, 0.03, 0.01, 0.0], [0.003] * 7
    result = mean_of_launches(values, errors, Spread(0.004, 4.0), confidence=0.9)
    variance = (4.0 * (0.004**2 + 0.003**2) + 6.0 * np.var(values, ddof=1)) / 10.0
    expected = stats.t.interval(0.9, 10.0, np.mean(values), math.sqrt(variance / 7.0))
    assert (result.low, result.high) == pytest.approx(expected)


def test_few_launches_claim_no_more_than_one_of_them() -> None:
    """Three that agree by chance do not break a limit that each of them leaves open; six may."""
    spread = Spread(0.01, 4.0)
    alone = 1.959964 * 0.01
    few = mean_of_launches([0.02] * 3, [0.0] * 3, spread)
    assert (few.low, few.high) == pytest.approx((0.02 - alone, 0.02 + alone))
    six = mean_of_launches([0.02] * 6, [0.0] * 6, spread)
    assert six.high - six.low < 2 * alone


def test_few_launches_of_several_sets_may_claim_more_than_one_of_them() -> None:
    """Each of the sets is a draw of its own: nine of them in three launches are not three that agree by chance."""
    spread = Spread(0.01, 4.0)
    (few, many) = (mean_of_launches([0.02] * 3, [0.0] * 3, spread, draws=means) for means in (0, 9))
    half = stats.t.ppf(0.975, 6.0) * 0.01 * math.sqrt(4.0 / 6.0 / 3.0)
    assert (many.low, many.high) == pytest.approx((0.02 - half, 0.02 + half))
    assert few.low < many.low


def test_a_launch_weighs_by_its_own_variance() -> None:
    """A restless one moves the mean less: it is the weighted mean of statsmodels, with its scale moderated."""
    values, errors, spread = [0.05, 0.048, 0.052, 0.049, 0.051, 0.05, -0.02], [0.002] * 6 + [0.02], Spread(0.004, 4.0)
    variances = [spread.sd**2 + error**2 for error in errors]
    fitted = sm.WLS(values, np.ones(7), weights=[np.mean(variances) / variance for variance in variances]).fit()
    result = mean_of_launches(values, errors, spread)
    scale = (4.0 * np.mean(variances) + 6.0 * fitted.scale) / 10.0
    half = stats.t.ppf(0.975, 10.0) * fitted.bse[0] * math.sqrt(scale / fitted.scale)
    assert result.value == pytest.approx(fitted.params[0])
    assert result.high - result.value == pytest.approx(half)
    assert result.value > 0.045 > np.mean(values)


def test_one_launch_is_no_less_wide_than_what_is_known() -> None:
    """It has no spread of its own."""
    result = mean_of_launches([0.5], [0.0], Spread(0.01, 4.0))
    assert result.high - result.low == pytest.approx(2 * stats.t.ppf(0.975, 4) * 0.01)


def test_three_looks_err_in_five_percent() -> None:
    """Of 200 000 series of normal launches; the bound is four standard errors."""
    sums = np.random.default_rng(1).normal(size=(200_000, LAUNCH_LOOKS[-1])).cumsum(axis=1)
    reach = stats.norm.ppf(0.5 + LOOK_CONFIDENCE / 2.0)
    beyond = np.any([np.abs(sums[:, look - 1]) > reach * math.sqrt(look) for look in LAUNCH_LOOKS], axis=0)
    assert abs(beyond.mean() - 0.05) < 4.0 * math.sqrt(0.05 * 0.95 / len(sums))


def auto(world: str, slower: float, checks: int, seed: int) -> tuple[float, float]:
    """Return the shares of checks that fail and that pass a limit of 3 %, where doubt brings further launches."""
    most, least = LAUNCH_LOOKS[-1], -math.log1p(0.03)
    times = WORLDS[world].launches(slower, checks * most, seed)[0]
    first = decide(times, slower, 0.03, Spread(0.005, 4.0))
    logs = times[:, 0] - times[:, 2]
    failed, passed = first.failed.reshape(checks, most)[:, 0], first.passed.reshape(checks, most)[:, 0]
    for check in np.flatnonzero(~failed & ~passed):
        rounds = [logs[launch, : first.rounds[launch]] for launch in range(check * most, (check + 1) * most)]
        values = [float(np.median(each)) for each in rounds]
        errors = [
            1.2533 * 1.4826 * float(np.median(np.abs(each - np.median(each)))) / math.sqrt(len(each)) for each in rounds
        ]
        for look in LAUNCH_LOOKS:
            result = mean_of_launches(values[:look], errors[:look], Spread(0.005, 4.0), confidence=LOOK_CONFIDENCE)
            if result.high < least or result.low >= least:
                failed[check], passed[check] = result.high < least, result.low >= least
                break
    return float(failed.mean()), float(passed.mean())


@pytest.mark.parametrize("world", WORLDS)
def test_doubt_that_further_launches_settle(world: str) -> None:
    """A limit of 3 %: +5 % is caught, +4 % does not pass, +2 % and equal engines do not fail; 200 checks each."""
    caught, _ = auto(world, 0.05, 200, 11)
    _, missed = auto(world, 0.04, 200, 12)
    alarms, _ = auto(world, 0.02, 200, 13)
    assert caught >= 0.95
    assert missed <= 0.03
    assert alarms <= 0.02
    assert auto(world, 0.0, 200, 14)[0] == 0.0


PRIOR = Spread(0.005, 4.0)


def test_without_draws_the_prior_stays() -> None:
    """Nothing is known but it."""
    result = session_spread(PRIOR, [])
    assert (result.sd, result.freedom) == pytest.approx((0.005, 4.0))


def test_draws_without_error_are_averaged_by_degrees_of_freedom() -> None:
    """Smyth's (2004) equation: (d0 s0^2 + sum of squares) / (d0 + n)."""
    result = session_spread(PRIOR, [ValueWithError(0.02, 0.0), ValueWithError(-0.01, 0.0)])
    assert result.sd**2 == pytest.approx((4 * 0.005**2 + 0.02**2 + 0.01**2) / 6)
    assert result.freedom == 6.0


def test_what_the_rounds_explain_is_taken_off() -> None:
    """200 draws of a session sd of 0.8 % whose rounds add 0.6 % give 0.8, not the 1.0 % that they scatter by."""
    rng = np.random.default_rng(1)
    logs = rng.normal(0.0, math.hypot(0.008, 0.006), 2000)
    result = session_spread(PRIOR, [ValueWithError(log, 0.006) for log in logs])
    assert result.sd == pytest.approx(0.008, rel=0.05)


def test_an_uncertain_draw_counts_less() -> None:
    """Where its error equals the prior, a quarter; where it is ten times that, next to nothing."""
    assert session_spread(PRIOR, [ValueWithError(0.0, 0.005)]).freedom == pytest.approx(4.25)
    assert session_spread(PRIOR, [ValueWithError(0.05, 0.05)]).freedom == pytest.approx(4.0, abs=0.001)


def test_a_quiet_machine_never_reaches_zero() -> None:
    """Draws that scatter less than their rounds would take a variance below it."""
    result = session_spread(PRIOR, [ValueWithError(0.0, 0.004)] * 50)
    assert 0.0 < result.sd < 0.005


def test_the_error_of_a_median_is_that_of_normal_rounds() -> None:
    """The standard deviation of 4000 simulated medians of 40 rounds, against the mean of the stated errors."""
    rng = np.random.default_rng(2)
    means = [median_with_error(list(rounds)) for rounds in rng.normal(0.0, 0.01, (4000, 40))]
    spread = float(np.std([draw.value for draw in means]))
    assert float(np.mean([each.error for each in means])) == pytest.approx(spread, rel=0.05)


def test_a_burst_is_no_spread_of_all_rounds() -> None:
    """The median absolute deviation is SciPy's, and three of 40 rounds hardly move it."""
    values = np.random.default_rng(3).normal(0.0, 0.01, 40)
    assert robust_sd(list(values)) == pytest.approx(stats.median_abs_deviation(values, scale="normal"), rel=1e-4)
    burst = [*values[:37], 0.5, 0.6, 0.7]
    assert robust_sd(burst) < 1.3 * robust_sd(list(values))


FIRST_LOOK, LAST_LOOK = PAIR_LOOKS

TRIALS = 400_000
LIMIT = math.log(1.05)


def looked_at(true: float, sd: float, trials: int = TRIALS) -> tuple[float, float]:
    """Return the shares of trials that end above and within the limit, each trial stopping as a measurement does."""
    drawn = true + sd * np.random.default_rng(12).standard_normal((trials, LAST_LOOK))
    open_ = np.ones(trials, bool)
    above = within = 0
    for look in (FIRST_LOOK, LAST_LOOK):
        low, high = _ends(drawn[:, :look])
        over, under = open_ & (low > LIMIT), open_ & (high <= LIMIT)
        above, within = above + int(over.sum()), within + int(under.sum())
        open_ &= ~(over | under)
    return above / trials, within / trials


def _ends(drawn: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    look = drawn.shape[1]
    reach = means._CRITICAL[PAIR_LOOKS.index(look)] * drawn.std(axis=1, ddof=1) / math.sqrt(look)
    mean = drawn.mean(axis=1)
    return mean - reach, mean + reach


def test_at_the_limit_each_wrong_answer_comes_in_at_most_one_of_forty() -> None:
    """2.5 % over both looks; three standard errors of the simulation are 0.07 %."""
    above, within = looked_at(LIMIT, 0.01)
    assert above == pytest.approx(0.025, abs=0.0008)
    assert within == pytest.approx(0.025, abs=0.0008)


def test_the_same_code_on_both_sides_is_not_above_the_limit() -> None:
    """At most 1 % of the time, for processes that differ by up to 2 % (a pair of them by 2.8 %)."""
    for sd in (0.005, 0.01, 0.02):
        assert looked_at(0.0, math.sqrt(2.0) * sd, 100_000)[0] < 0.01


def test_the_interval_is_that_of_student_at_the_first_look() -> None:
    """Its level is 1.25 % on each side, as SciPy computes it."""
    values = [0.01, 0.03, 0.02, 0.05, 0.04]
    result = mean_of_pairs(values)
    low, high = stats.t.interval(0.975, 4, loc=np.mean(values), scale=stats.sem(values))
    assert (result.value, result.low, result.high) == pytest.approx((0.03, low, high), rel=1e-4)


def test_pairs_that_agree_have_no_interval_and_between_two_looks_the_bounds_stay_wide() -> None:
    """The bounds of the second look hold from its number of pairs on."""
    assert mean_of_pairs([0.1] * FIRST_LOOK).low == mean_of_pairs([0.1] * FIRST_LOOK).high == pytest.approx(0.1)
    seven, ten = (([0.0, 0.1] * n)[:n] for n in (7, LAST_LOOK))
    for values, critical in ((seven, 3.4954), (ten, 2.562)):
        result = mean_of_pairs(values)
        assert (result.high - result.value) / float(stats.sem(values)) == pytest.approx(critical)
