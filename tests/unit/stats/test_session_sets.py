"""Several sets of sessions, judged together: by formula, and by how often the interval holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.stats.one_sample import LOOK_CONFIDENCE
from pytest_quant.stats.rounds import SessionNoise, SessionSet, judge_sets, session_set
from pytest_quant.stats.sequential import Looks

ERROR = 0.002
logs = st.floats(-0.2, 0.2)


def exact(ratio: float, null: float, candidate: float = 0.0) -> SessionSet:
    """Return a set whose rounds all have the same ratios, give or take an error."""
    return SessionSet(ratio, null, candidate, ERROR, ERROR, ERROR)


def test_a_set_counts_both_sessions_of_the_reference() -> None:
    """Its ratio is that of their geometric mean to the candidate."""
    found = session_set(np.full(8, 0.10), np.full(8, 0.14), np.full(8, 0.02), Looks())
    assert (found.ratio, found.null, found.candidate) == pytest.approx((0.10, 0.04, 0.02))


@given(st.lists(st.tuples(logs, logs), min_size=7, max_size=10), st.floats(0.001, 0.05), st.floats(1.0, 20.0))
def test_the_interval_is_that_of_students_t_over_the_sets(
    sets: list[tuple[float, float]], known_sd: float, draws: float
) -> None:
    """With the nulls as further draws of the same noise, and 3/4 of its variance in each ratio."""
    ratios, nulls = zip(*sets, strict=True)
    found = judge_sets([exact(*one) for one in sets], SessionNoise(known_sd, draws), 0.95)
    shown = sum(max(null**2 - ERROR**2, 0.0) for null in nulls)
    sd = math.sqrt((draws * known_sd**2 + shown) / (draws + len(sets)))
    freedom = draws + 2 * len(sets) - 1
    spread = (draws + len(sets)) * (0.75 * sd**2 + ERROR**2) + (len(sets) - 1) * np.var(ratios, ddof=1)
    half = scipy.stats.t.ppf(0.975, freedom) * math.sqrt(spread / freedom / len(sets))
    assert found.ratio.value == pytest.approx(np.mean(ratios), abs=1e-12)
    assert (found.ratio.low, found.ratio.high) == pytest.approx((np.mean(ratios) - half, np.mean(ratios) + half))
    assert found.session_sd == pytest.approx(sd)
    assert found.mean_sd == pytest.approx(math.sqrt(0.75 / len(sets)) * sd)


@pytest.mark.parametrize("session_sd", [0.005, 0.025, 0.05])
@pytest.mark.parametrize("sets", [2, 3, 5, 10])
def test_the_interval_holds(session_sd: float, sets: int) -> None:
    """In 93 of 100 measurements at least, where 3 % is taken for the noise of a ratio that is 0.7 to 7 %."""
    random, held, trials = np.random.default_rng(sets), 0, 300
    for _ in range(trials):
        drawn = []
        for _ in range(sets):
            offsets = random.normal(0.0, session_sd, 3)
            rounds = [offset + random.normal(0.0, 0.01, Looks().first) for offset in offsets]
            drawn.append(session_set(rounds[0], rounds[1], rounds[2], Looks()))
        ratio = judge_sets(drawn, SessionNoise(0.03, 4.0), LOOK_CONFIDENCE).ratio
        held += ratio.low <= 0.0 <= ratio.high
    assert held >= 0.93 * trials
