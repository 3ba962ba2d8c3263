"""A self-test finds the spreads that were put into its rounds, and the limits that ordinary checks hold with them."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pytest_quant.spec import UNMEASURED, Spread
from pytest_quant.stats.draws import session_spread
from pytest_quant.stats.rounds import judge_ratio
from pytest_quant.stats.selftest import KindTimed, held_limits, kinds_noise, to_write
from pytest_quant.stats.sequential import Looks

ROUNDS = 40


def a_kind(launches: int, *, round_sd: float, session_sd: float, launch_sd: float, seed: int = 0) -> KindTimed:
    """Rounds of 0.1 ms and twice as fast.

    The ratio of two sessions differs by `session_sd`, so that each has that divided by the root of two.
    """
    rng = np.random.default_rng(seed)
    launch = rng.normal(0.0, launch_sd, (launches, 1))

    def engine(log_ns: float) -> np.ndarray:
        session = rng.normal(0.0, session_sd / math.sqrt(2.0), (launches, 1))
        return log_ns + session + rng.normal(0.0, round_sd / math.sqrt(2.0), (launches, ROUNDS))

    return KindTimed("tiny", engine(math.log(1e5)), engine(math.log(1e5)), engine(math.log(5e4)) + launch)


def test_the_spreads_that_were_put_in_are_found() -> None:
    """Of 800 launches: sessions 0.8 %, and launches with all of sessions and rounds 1.3 %."""
    (noise,) = kinds_noise([a_kind(800, round_sd=0.015, session_sd=0.008, launch_sd=0.010)], UNMEASURED)
    of_median = math.sqrt(math.pi / 2.0) * 0.015 / math.sqrt(ROUNDS)
    assert noise.session_sd_pct == pytest.approx(0.8, rel=0.06)
    assert noise.launch_sd_pct == pytest.approx(100 * math.hypot(0.008, 0.010, of_median), rel=0.06)
    assert len(noise.draws) == 800


def test_a_loud_machine_holds_only_wide_limits() -> None:
    """Sessions that differ by 4 % hide 8 %; five launches hold less, and a baseline that is measured too takes some."""
    (noise,) = kinds_noise([a_kind(60, round_sd=0.01, session_sd=0.04, launch_sd=0.0)], UNMEASURED)
    assert noise.one_pct > 8.0
    assert noise.five_pct < noise.five_each_pct < noise.one_pct


def test_what_one_kind_shows_of_sessions_widens_the_limits_of_all() -> None:
    """Later checks allow for the noise of the runner, whatever their model."""
    quiet = a_kind(20, round_sd=0.002, session_sd=0.001, launch_sd=0.001)
    loud = a_kind(20, round_sd=0.002, session_sd=0.04, launch_sd=0.001)
    (alone,), (beside, _) = kinds_noise([quiet], UNMEASURED), kinds_noise([quiet, loud], UNMEASURED)
    assert beside.session_sd_pct == alone.session_sd_pct
    assert beside.one_pct > 2.0 * alone.one_pct


def _share(kind: KindTimed, allowed: float, looks: Looks, known: Spread, *, passed: bool) -> float:
    """The share of launches that pass, or fail, at the first look that decides: by the rule of ordinary checks."""
    verdicts = np.zeros(kind.reference.shape[0])
    for rounds in looks.until(ROUNDS):
        reference, null, candidate = (side[:, :rounds] for side in (kind.reference, kind.null, kind.candidate))
        span = judge_ratio(reference, null, candidate, looks, known)[0].span
        now = np.where(span.low >= allowed, 1, np.where(span.high < allowed, -1, 0))
        verdicts = np.where(verdicts == 0, now, verdicts)
    return float(np.mean(verdicts > 0 if passed else verdicts < 0))


@pytest.mark.parametrize("spreads", [(0.006, 0.003, 0.003), (0.018, 0.01, 0.01), (0.03, 0.02, 0.005)])
def test_the_limit_that_is_told_is_held_by_ordinary_checks(spreads: tuple[float, float, float]) -> None:
    """Of 30 self-tests of 20 launches, each asked with 200 later launches of the same machine.

    On average 80 % of unchanged code pass and at most 1 % fail, and 80 % of what lost twice the limit fail. The limits
    of single self-tests scatter, so that the average of 30 is known within 2 %.
    """
    rounds, sessions, launches = spreads
    machine = partial(a_kind, round_sd=rounds, session_sd=sessions, launch_sd=launches)
    rates = []
    for seed in range(30):
        tested = machine(20, seed=seed)
        (noise,) = kinds_noise([tested], UNMEASURED)
        known = session_spread(UNMEASURED, tested.draws())
        later = machine(200, seed=1000 + seed)
        limit = math.log1p(noise.one_pct / 100.0)
        slower = replace(later, candidate=later.candidate + 2.0 * limit)
        asked = (math.log(2.0) - limit, Looks(most=ROUNDS), Spread(known.sd, min(known.freedom, 20.0)))
        passing, failing = (_share(later, *asked, passed=passed) for passed in (True, False))
        rates.append((passing, failing, _share(slower, *asked, passed=False)))
    passed, alarmed, caught = np.mean(rates, axis=0)
    assert passed >= 0.78
    assert alarmed <= 0.01
    assert caught >= 0.78


@pytest.mark.parametrize(("sd", "width"), [(0.01, 0.02), (0.02, 0.004), (0.003, 0.01)])
def test_the_smallest_limit_is_held_and_a_smaller_one_is_not(sd: float, width: float) -> None:
    """Simulated: unchanged code passes in 80 % and fails in 1 % at most; 20 % below it one of both is not so."""
    limit = math.log1p(held_limits(Spread(sd, 1e6), width).one_pct / 100.0)
    logs = np.random.default_rng(4).normal(0.0, sd, 200_000)

    def rates(of: float) -> tuple[float, float]:
        return float(np.mean(logs + width <= of)), float(np.mean(logs - width > of))

    passed, failed = rates(limit)
    assert passed >= 0.797
    assert failed <= 0.0105
    passed, failed = rates(0.8 * limit)
    assert passed < 0.8 or failed > 0.01


def test_five_launches_hold_a_smaller_limit() -> None:
    """By the formula: (t(0.975) + t(0.80)) s / sqrt(5), and sqrt(2) of it where the baseline is measured too."""
    found = held_limits(Spread(0.01, 19.0), 0.02)
    t = scipy_stats.t.ppf(0.975, 19) + scipy_stats.t.ppf(0.80, 19)
    assert found.five_pct == pytest.approx(100 * math.expm1(t * 0.01 / math.sqrt(5)))
    assert found.five_each_pct == pytest.approx(100 * math.expm1(t * 0.01 * math.sqrt(2 / 5)))
    assert found.one_pct == pytest.approx(100 * math.expm1(0.02 + scipy_stats.t.ppf(0.80, 19) * 0.01))


@pytest.mark.parametrize(("limit", "written"), [(0.2, 0.5), (2.0, 2.0), (2.01, 2.5), (17.0, 20.0), (61.0, 70.0)])
def test_a_limit_is_written_as_a_round_number_above_it(limit: float, written: float) -> None:
    """Never below what is held."""
    assert to_write(limit) == written
