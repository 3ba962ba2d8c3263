"""The t interval over pairs of processes is wrong as rarely as it says, over both looks together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pytest_quant.stats import draws
from pytest_quant.stats.draws import PAIR_LOOKS, mean_of_pairs

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
    reach = draws._CRITICAL[PAIR_LOOKS.index(look)] * drawn.std(axis=1, ddof=1) / math.sqrt(look)
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


def test_a_planted_slow_down_is_caught() -> None:
    """Two points above the limit: 95 % of the time when processes differ by 0.5 %, 90 % when they do by 1 %."""
    two_above = LIMIT + math.log(1.05 / 1.03)
    assert looked_at(two_above, math.sqrt(2.0) * 0.005, 100_000)[0] > 0.95
    assert looked_at(two_above, math.sqrt(2.0) * 0.01, 100_000)[0] > 0.90


def test_the_interval_is_that_of_student_at_the_first_look() -> None:
    """Its level is 1.25 % on each side, as SciPy computes it."""
    values = [0.01, 0.03, 0.02, 0.05, 0.04]
    found = mean_of_pairs(values)
    low, high = stats.t.interval(0.975, 4, loc=np.mean(values), scale=stats.sem(values))
    assert (found.value, found.low, found.high) == pytest.approx((0.03, low, high), rel=1e-4)


def test_pairs_that_agree_have_no_interval_and_between_two_looks_the_bounds_stay_wide() -> None:
    """The bounds of the second look hold from its number of pairs on."""
    assert mean_of_pairs([0.1] * FIRST_LOOK).low == mean_of_pairs([0.1] * FIRST_LOOK).high == pytest.approx(0.1)
    seven, ten = (([0.0, 0.1] * n)[:n] for n in (7, LAST_LOOK))
    for values, critical in ((seven, 3.4954), (ten, 2.562)):
        found = mean_of_pairs(values)
        assert (found.high - found.value) / float(stats.sem(values)) == pytest.approx(critical)
