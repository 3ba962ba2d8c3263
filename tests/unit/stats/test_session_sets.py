"""Several sets of sessions, judged together: by formula, and by how often the interval holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.signal
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.spec import Spread
from pytest_quant.stats.draws import LOOK_CONFIDENCE, Draw, session_spread
from pytest_quant.stats.rounds import SessionSet, judge_sets, session_sets

ERROR = 0.002
logs = st.floats(-0.2, 0.2)


def exact(ratio: float, null: float, candidate: float = 0.0) -> SessionSet:
    """Return a set whose rounds all have the same ratios, give or take an error."""
    return SessionSet(ratio, null, candidate, ERROR, ERROR, ERROR)


def test_a_set_counts_both_sessions_of_the_reference() -> None:
    """Its ratio is that of their geometric mean to the candidate."""
    reference, null, candidate = (np.repeat(values, (8, 4)) for values in ((0.10, 0.2), (0.14, 0.2), (0.02, 0.1)))
    first, second = session_sets(reference, null, candidate, (8, 4))
    assert (first.ratio, first.null, first.candidate) == pytest.approx((0.10, 0.04, 0.02))
    assert (second.ratio, second.null, second.candidate) == pytest.approx((0.10, 0.0, 0.1))
    assert (first.ratio_error, second.candidate_error) == (0.0, 0.0)


def test_engines_that_are_alike_have_a_ratio_of_1_where_times_are_skewed() -> None:
    """The mean over many sets of rounds with exponential noise of 6 % is within 0.05 % of 1."""
    random, sizes = np.random.default_rng(5), (15,) * 4000
    reference, null, candidate = random.exponential(0.06, (3, sum(sizes)))
    sets = session_sets(reference, null, candidate, sizes)
    assert abs(np.mean([each.ratio for each in sets])) < 0.0005


@pytest.mark.parametrize("alike", [0.0, 0.6])
def test_the_errors_are_those_that_sets_show(alike: float) -> None:
    """Of the medians of many sets of eight rounds; where these are alike, no smaller and at most 2.5 times as large."""
    random, sizes = np.random.default_rng(7), (8,) * 2000
    own = random.normal(0.0, 0.05, (3, 16_000))
    reference, null, candidate = scipy.signal.lfilter([math.sqrt(1.0 - alike**2)], [1.0, -alike], own)
    sets = session_sets(reference, null, candidate, sizes)
    for name in ("ratio", "null", "candidate"):
        shown = np.std([getattr(one, name) for one in sets], ddof=1)
        assert shown / 1.25 <= getattr(sets[0], f"{name}_error") <= (2.5 if alike else 1.25) * shown


@given(st.lists(st.tuples(logs, logs), min_size=7, max_size=10), st.floats(0.001, 0.05), st.floats(1.0, 20.0))
def test_the_interval_is_that_of_students_t_over_the_sets(
    sets: list[tuple[float, float]], known_sd: float, draws: float
) -> None:
    """With the nulls as further draws of the same noise, and 3/4 of its variance in each ratio."""
    ratios, nulls = zip(*sets, strict=True)
    found = judge_sets([exact(*one) for one in sets], Spread(known_sd, draws), 0.95)
    known = session_spread(Spread(known_sd, draws), [Draw(null, ERROR) for null in nulls])
    sd, freedom = known.sd, known.freedom + len(sets) - 1
    spread = known.freedom * (0.75 * sd**2 + ERROR**2) + (len(sets) - 1) * np.var(ratios, ddof=1)
    half = scipy.stats.t.ppf(0.975, freedom) * math.sqrt(spread / freedom / len(sets))
    assert found.ratio.value == pytest.approx(np.mean(ratios), abs=1e-12)
    assert (found.ratio.low, found.ratio.high) == pytest.approx((np.mean(ratios) - half, np.mean(ratios) + half))
    assert found.session_sd == pytest.approx(sd)
    assert found.mean_sd == pytest.approx(math.sqrt(0.75 / len(sets)) * sd)


@pytest.mark.parametrize("rounds_sd", [0.01, 0.1])
@pytest.mark.parametrize("session_sd", [0.005, 0.025, 0.035])
@pytest.mark.parametrize("sets", [2, 3, 5, 10])
def test_the_interval_holds(session_sd: float, sets: int, rounds_sd: float) -> None:
    """In 93 of 100 measurements at least, where 3 % is taken for the noise of a ratio that is 0.7 to 5 %."""
    random, held, trials = np.random.default_rng(sets), 0, 300
    for _ in range(trials):
        sessions = random.normal(0.0, session_sd, (3, sets)).repeat(8, axis=1)
        reference, null, candidate = sessions + random.normal(0.0, rounds_sd, sessions.shape)
        drawn = session_sets(reference, null, candidate, (8,) * sets)
        ratio = judge_sets(drawn, Spread(0.03, 4.0), LOOK_CONFIDENCE).ratio
        held += ratio.low <= 0.0 <= ratio.high
    assert held >= 0.93 * trials
