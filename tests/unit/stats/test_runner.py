"""The noise of a machine and the limits it can hold: on draws whose spread is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pytest_quant.spec import Spread
from pytest_quant.stats.runner import Draw, draw_of, held_limits, robust_sd, session_spread, to_write

PRIOR = Spread(0.005, 4.0)


def test_without_draws_the_prior_stays() -> None:
    """Nothing is known but it."""
    found = session_spread(PRIOR, [])
    assert (found.sd, found.freedom) == pytest.approx((0.005, 4.0))


def test_draws_without_error_are_averaged_by_degrees_of_freedom() -> None:
    """Smyth's (2004) equation: (d0 s0^2 + sum of squares) / (d0 + n)."""
    found = session_spread(PRIOR, [Draw(0.02, 0.0), Draw(-0.01, 0.0)])
    assert found.sd**2 == pytest.approx((4 * 0.005**2 + 0.02**2 + 0.01**2) / 6)
    assert found.freedom == 6.0


def test_what_the_rounds_explain_is_taken_off() -> None:
    """200 draws of a session sd of 0.8 % whose rounds add 0.6 % give 0.8, not the 1.0 % that they scatter by."""
    rng = np.random.default_rng(1)
    logs = rng.normal(0.0, math.hypot(0.008, 0.006), 2000)
    found = session_spread(PRIOR, [Draw(one, 0.006) for one in logs])
    assert found.sd == pytest.approx(0.008, rel=0.05)


def test_an_uncertain_draw_counts_less() -> None:
    """Where its error equals the prior, a quarter; where it is ten times that, next to nothing."""
    assert session_spread(PRIOR, [Draw(0.0, 0.005)]).freedom == pytest.approx(4.25)
    assert session_spread(PRIOR, [Draw(0.05, 0.05)]).freedom == pytest.approx(4.0, abs=0.001)


def test_a_quiet_machine_never_reaches_zero() -> None:
    """Draws that scatter less than their rounds would take a variance below it."""
    found = session_spread(PRIOR, [Draw(0.0, 0.004)] * 50)
    assert 0.0 < found.sd < 0.005


def test_the_error_of_a_median_is_that_of_normal_rounds() -> None:
    """The standard deviation of 4000 simulated medians of 40 rounds, against the mean of the stated errors."""
    rng = np.random.default_rng(2)
    draws = [draw_of(list(rounds)) for rounds in rng.normal(0.0, 0.01, (4000, 40))]
    spread = float(np.std([one.log_ratio for one in draws]))
    assert float(np.mean([one.error for one in draws])) == pytest.approx(spread, rel=0.05)


def test_a_burst_is_no_spread_of_all_rounds() -> None:
    """The median absolute deviation is SciPy's, and three of 40 rounds hardly move it."""
    values = np.random.default_rng(3).normal(0.0, 0.01, 40)
    assert robust_sd(list(values)) == pytest.approx(scipy_stats.median_abs_deviation(values, scale="normal"), rel=1e-4)
    burst = [*values[:37], 0.5, 0.6, 0.7]
    assert robust_sd(burst) < 1.3 * robust_sd(list(values))


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
