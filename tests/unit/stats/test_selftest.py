"""A self-test finds the spreads that were put into its rounds, and counts the verdicts that they give."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from pytest_quant.stats.rounds import judge_ratio
from pytest_quant.stats.runner import UNMEASURED, Spread, session_spread
from pytest_quant.stats.selftest import KindTimed, Timed, figures
from pytest_quant.stats.sequential import Looks

ROUNDS = 40
SLOWER = math.log(1.05)


def a_kind(
    processes: int, *, round_sd: float, session_sd: float, launch_sd: float, name: str = "tiny", seed: int = 0
) -> KindTimed:
    """Rounds of 0.1 ms and twice as fast; the planted engine takes exactly 5 % longer.

    The ratio of two sessions differs by `session_sd`, so that each has that divided by the root of two.
    """
    rng = np.random.default_rng(seed)
    launch = rng.normal(0.0, launch_sd, (processes, 1))

    def engine(log_ns: float) -> np.ndarray:
        session = rng.normal(0.0, session_sd / math.sqrt(2.0), (processes, 1))
        return log_ns + session + rng.normal(0.0, round_sd / math.sqrt(2.0), (processes, ROUNDS))

    float32, int8 = math.log(1e5), math.log(5e4)
    candidate = Timed(engine(float32), engine(float32), engine(int8) + launch)
    return KindTimed(name, candidate, Timed(engine(int8), engine(int8), engine(int8) + SLOWER))


def test_the_spreads_that_were_put_in_are_found() -> None:
    """Of 400 processes: rounds 1.5 %, sessions 0.8 %, and launches with all of both 1.3 %."""
    kind = a_kind(400, round_sd=0.015, session_sd=0.008, launch_sd=0.010)
    (found,) = figures([kind], UNMEASURED).kinds
    of_median = math.sqrt(math.pi / 2.0) * 0.015 / math.sqrt(ROUNDS)
    assert found.round_sd_pct == pytest.approx(1.5, rel=0.05)
    assert found.session_sd_pct == pytest.approx(0.8, rel=0.06)
    assert found.launch_sd_pct == pytest.approx(100 * math.hypot(0.008, 0.010, of_median), rel=0.06)
    assert abs(found.autocorrelation) < 0.1
    for value, span in ((found.session_sd_pct, found.session_sd_ci), (found.launch_sd_pct, found.launch_sd_ci)):
        assert span.low < value < span.high
    assert (found.reference_p50_ms, found.candidate_p50_ms) == pytest.approx((0.1, 0.05), rel=0.01)
    assert len(found.draws) == 800


def test_the_interval_of_a_spread_encloses_it() -> None:
    """Of 200 self-tests of 20 processes, 95 % do; 2.6 standard errors of a share allow 4 % less or more."""
    truth = math.hypot(0.006, math.sqrt(math.pi / 2.0) * 0.01 / math.sqrt(ROUNDS))
    enclosed = 0
    for seed in range(200):
        kind = a_kind(20, round_sd=0.01, session_sd=0.006, launch_sd=0.0, seed=seed)
        span = figures([kind], UNMEASURED).kinds[0].launch_sd_ci
        enclosed += span.low <= 100.0 * truth <= span.high
    assert 182 <= enclosed <= 198


def test_a_quiet_machine_sees_what_was_planted_and_no_more() -> None:
    """Every run of a slowdown fails, every one of unchanged code passes, and nothing alarms; that proves 14 %."""
    found = figures([a_kind(20, round_sd=0.002, session_sd=0.001, launch_sd=0.001)], UNMEASURED)
    (kind,) = found.kinds
    assert {(one.failed_pct, one.passed_pct) for one in kind.slowdowns} == {(100.0, 100.0)}
    assert [one.is_planted for one in kind.slowdowns] == [False, False, False, True]
    assert [one.limit_pct for one in kind.slowdowns] == [1.5, 2.5, 5.0, 2.5]
    assert kind.slowdowns[-1].slowdown_pct == pytest.approx(5.0, abs=0.2)
    assert found.alarms == 0
    assert found.alarms_below_pct == pytest.approx(13.9, abs=0.05)


def test_a_loud_machine_holds_only_wide_limits() -> None:
    """Sessions that differ by 4 % hide 3 and 5 %; the limit that is held is held by a simulation of them."""
    (kind,) = figures([a_kind(60, round_sd=0.01, session_sd=0.04, launch_sd=0.0)], UNMEASURED).kinds
    assert max(one.failed_pct for one in kind.slowdowns if one.slowdown_pct < 6.0) < 50.0
    assert kind.one_pct > 8.0
    assert kind.five_pct < kind.five_each_pct < kind.one_pct


def test_a_process_that_alarms_is_counted_once() -> None:
    """In whatever kind of model, and in how many of them: here the null of one process is 10 % slower in both."""
    quiet = [a_kind(10, round_sd=0.002, session_sd=0.001, launch_sd=0.001, name=name) for name in ("tiny", "large")]
    for kind in quiet:
        kind.candidate.null[3] += 0.10
    found = figures(quiet, UNMEASURED)
    assert found.alarms == 1
    assert found.alarms_below_pct == pytest.approx(39.4, abs=0.1)


def _share(kind: Timed, allowed: float, looks: Looks, known: Spread, *, passed: bool) -> float:
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
    """Of 30 self-tests of 20 processes, each asked with 200 later launches of the same machine.

    On average 80 % of unchanged code pass and at most 1 % fail, and 80 % of what lost twice the limit fail. The limits
    of single self-tests scatter, so that the average of 30 is known within 2 %.
    """
    rounds, sessions, launches = spreads
    machine = partial(a_kind, round_sd=rounds, session_sd=sessions, launch_sd=launches)
    rates = []
    for seed in range(30):
        tested = machine(20, seed=seed)
        (found,) = figures([tested], UNMEASURED).kinds
        known = session_spread(UNMEASURED, tested.draws())
        later = machine(200, seed=1000 + seed).candidate
        limit = math.log1p(found.one_pct / 100.0)
        slower = replace(later, candidate=later.candidate + 2.0 * limit)
        asked = (math.log(2.0) - limit, Looks(most=ROUNDS), Spread(known.sd, min(known.freedom, 20.0)))
        passing, failing = (_share(later, *asked, passed=passed) for passed in (True, False))
        rates.append((passing, failing, _share(slower, *asked, passed=False)))
    passed, alarmed, caught = np.mean(rates, axis=0)
    assert passed >= 0.78
    assert alarmed <= 0.01
    assert caught >= 0.78
