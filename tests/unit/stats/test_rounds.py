"""Intervals of rounds that resemble each other, in sessions that lie apart: their errors in worlds that are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom
from statsmodels.tsa.stattools import acf

from pytest_quant.spec import Spread
from pytest_quant.stats.rounds import (
    autocorrelation,
    judge_ratio,
    judge_rounds,
    moderated_sd,
    resemblance,
    widened,
)
from pytest_quant.stats.sequential import Looks, Span
from tests.support.worlds import WORLDS, World, autoregressive, decide

LAUNCHES = 1000
LIMIT = 0.03
UNKNOWN = Spread(0.005, freedom=3)
"""Of a runner that nobody measured."""

SURE = 0.999
"""Of a bound on a count: one run of these tests in hundreds would miss it by chance, and their seeds are fixed."""


def at_most(share: float) -> int:
    """The largest count of `LAUNCHES` that does not contradict a true share."""
    return int(binom.ppf(SURE, LAUNCHES, share))


def measured(world: World) -> Spread:
    """What twenty sessions would have told."""
    return Spread(world.session_sd, freedom=20)


@pytest.mark.parametrize("name", WORLDS)
def test_two_percent_within_a_limit_of_three_do_not_fail_and_four_do_not_pass(name: str) -> None:
    """FAIL at most 1 %, with the measurement that confirms it, PASS at most 3 %; nobody measured the runner."""
    world, again = WORLDS[name], Looks(confidence=0.8)
    slower = world.launches(0.02, LAUNCHES, 1, measurements=2)
    failed = decide(slower[0], 0.02, LIMIT, UNKNOWN).failed & decide(slower[1], 0.02, LIMIT, UNKNOWN, again).failed
    passed = decide(world.launches(0.04, LAUNCHES, 2)[0], 0.04, LIMIT, UNKNOWN).passed
    assert failed.sum() <= at_most(0.01)
    assert passed.sum() <= at_most(0.03)


@pytest.mark.parametrize("name", WORLDS)
def test_the_interval_encloses_the_truth(name: str) -> None:
    """In at least 93 % where the runner was measured, although rounds stop at the look that decides."""
    world = WORLDS[name]
    for slower in (0.0, 0.05):
        covered = decide(world.launches(slower, LAUNCHES, 3)[0], slower, LIMIT, measured(world)).covered
        assert (~covered).sum() <= at_most(0.07), slower


@pytest.mark.parametrize("name", ["independent rounds", "and sessions", "quiet", "bursts", "heavy tails"])
def test_a_clear_verdict_comes_early(name: str) -> None:
    """PASS of equal engines, and FAIL of one that is 10 % slower, after 17 of 40 rounds at most in half of launches."""
    for slower in (0.0, 0.10):
        found = decide(WORLDS[name].launches(slower, LAUNCHES, 4)[0], slower, LIMIT, UNKNOWN)
        assert np.median(found.rounds) <= 17
        assert (found.failed if slower else found.passed).mean() >= 0.98


def test_at_the_limit_without_sessions_the_error_is_that_of_the_sign_test() -> None:
    """2.24 % to either side at most, however the rounds are distributed."""
    for name in ("independent rounds", "heavy tails"):
        world = World(WORLDS[name].noise, session_sd=0.0)
        found = decide(world.launches(LIMIT, LAUNCHES, 5)[0], LIMIT, LIMIT, Spread(0.0, freedom=20))
        assert max(found.failed.sum(), found.passed.sum()) <= at_most(Looks().boundary(40).error)


def test_the_null_widens_what_nobody_measured() -> None:
    """Sessions that differ twice as much as was assumed: the null shows it in part, and the interval errs less."""
    world = WORLDS["sessions of 1 %"]
    times = world.launches(0.0, LAUNCHES, 6)[0]
    deaf = decide(times, 0.0, LIMIT, Spread(0.005, freedom=1e9)).covered
    listening = decide(times, 0.0, LIMIT, UNKNOWN).covered
    assert (~listening).sum() <= 0.85 * (~deaf).sum()


def test_a_null_that_deviates_widens_and_one_that_does_not_narrows_a_little() -> None:
    """The mean of squares: known 0.5 % three times, and the deviation once, less what its rounds explain."""
    known = Spread(0.005, freedom=3)
    deviation, error = np.array([0.015, -0.015, 0.0, 0.003]), np.array([0.0, 0.0, 0.0, 0.004])
    squares = (3 * 0.005**2 + np.array([0.015**2, 0.015**2, 0.0, 0.0])) / 4
    assert moderated_sd(known, deviation, error) == pytest.approx(np.sqrt(squares))


def test_widening_adds_independent_errors_on_either_side() -> None:
    """3 and 4 make 5, on each side its own."""
    span = widened(Span(np.array(10.0), np.array(8.5), np.array(10.5)), np.array(2.0), np.array(4.0))
    assert span.low == pytest.approx(5.0)
    assert span.high == pytest.approx(10.0 + np.hypot(1.0, 4.0))


def test_autocorrelation_is_that_of_statsmodels() -> None:
    """At lag 1; values that are all equal have none."""
    values = np.random.default_rng(0).normal(size=(5, 30))
    assert autocorrelation(values) == pytest.approx([acf(row, nlags=1, fft=False)[1] for row in values])
    assert autocorrelation(np.ones(9)) == 0.0


def test_resemblance_has_no_bias_of_short_series() -> None:
    """Sixteen rounds of AR(0.5): the mean of 4000 lies within 0.05 of it, where r itself lies 0.15 below."""
    noise = autoregressive(0.5)(np.random.default_rng(0), (4000, 16))
    assert autocorrelation(noise).mean() < 0.4
    assert resemblance(noise).mean() == pytest.approx(0.5, abs=0.05)


def test_effective_rounds_are_those_of_bayley_and_hammersley() -> None:
    """Of 40 rounds 40 (1 - r) / (1 + r), by the series that resembles itself most."""
    random = np.random.default_rng(0)
    alike, other = autoregressive(0.8)(random, (40,)), random.normal(size=40)
    judged = judge_rounds(other, (other, alike), Looks(), np.zeros(()))
    r = float(resemblance(alike))
    assert judged.alike == pytest.approx(r)
    assert judged.effective_rounds == pytest.approx(40 * (1 - r) / (1 + r))


def test_a_ratio_is_judged_with_the_session_noise_its_null_shows() -> None:
    """Without noise of rounds the interval is that of sessions alone, 1.96 standard deviations to either side."""
    reference, null = np.zeros(8), np.full(8, 0.02)
    ratio, of_null = judge_ratio(reference, null, np.full(8, -0.7), Looks(), Spread(0.005, freedom=3))
    sd = np.sqrt((3 * 0.005**2 + 0.02**2) / 4)
    assert ratio.session_sd == pytest.approx(sd)
    assert (ratio.span.low, ratio.span.value, ratio.span.high) == pytest.approx(
        (0.7 - 1.96 * sd, 0.7, 0.7 + 1.96 * sd), rel=1e-4
    )
    assert (of_null.span.low, of_null.span.high) == pytest.approx((0.02, 0.02))
