"""Confidence sequences: how often they are wrong at any moment, how early they decide, and what they cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_quant.stats.confidence_sequence import Bounded, ConfidenceSequence
from pytest_quant.stats.paired import tango_interval

N = 50_000


def population(lost: float, won: float, n: int = N) -> np.ndarray:
    """Outcomes of all samples: 1 where only the reference is right, -1 where only the candidate is."""
    outcomes = np.zeros(n)
    outcomes[: round(lost * n)] = 1.0
    outcomes[round(lost * n) : round((lost + won) * n)] = -1.0
    return outcomes


def stop(outcomes: np.ndarray, limit: float, step: int, finite: bool = True) -> tuple[int, ConfidenceSequence]:
    """Look after every `step` outcomes; return how many were needed, all where the limit is never excluded."""
    sequence = ConfidenceSequence(Bounded(-1.0, 1.0, len(outcomes) if finite else None), 0.95)
    for start in range(0, len(outcomes), step):
        sequence.add(outcomes[start : start + step])
        if sequence.excludes(limit):
            break
    return sequence.n, sequence


@pytest.mark.parametrize("discordant", [0.01, 0.02, 0.05])
def test_a_drop_far_below_its_limit_is_decided_by_a_fifth_of_the_samples(discordant: float) -> None:
    """A drop of 0.1 points, a limit of 1.0, 50 000 samples."""
    random = np.random.default_rng(2)
    all_of_them = population(discordant / 2 + 0.0005, discordant / 2 - 0.0005)
    assert all_of_them.mean() == pytest.approx(0.001)
    used = []
    for _ in range(10):
        n, sequence = stop(random.permutation(all_of_them), 0.01, 1000)
        assert sequence.mean < 0.01
        used.append(n)
    assert np.mean(used) <= 0.2 * N


@pytest.mark.parametrize("finite", [True, False])
def test_a_drop_beyond_its_limit_rarely_passes_at_any_moment(finite: bool) -> None:
    """Just above the limit and looked at 20 times: at most 5 % of 100 sets are decided wrongly, or leave out the mean.

    Tango's interval, looked at as often, passes more than 5 % of those that are drawn from all there could be.
    """
    random = np.random.default_rng(3)
    all_of_them = population(0.0335, 0.02, 2000)
    sequence_wrong = interval_wrong = ever_outside = 0
    for _ in range(100):
        drawn = random.permutation(all_of_them) if finite else random.choice(all_of_them, 2000)
        n, sequence = stop(drawn, 0.0135, 100, finite)
        if n < 2000 and sequence.mean < 0.0135:
            sequence_wrong += 1
        ever_outside += sequence.excludes(0.0135)
        for seen in () if finite else range(100, 2000, 100):
            lost, won = int(np.sum(drawn[:seen] == 1.0)), int(np.sum(drawn[:seen] == -1.0))
            if tango_interval(lost, won, seen)[1] < 0.0135:
                interval_wrong += 1
                break
    assert sequence_wrong <= 0.05 * 100
    assert ever_outside <= 0.05 * 100
    assert finite or interval_wrong > 0.05 * 100


def test_all_samples_of_a_set_leave_no_doubt() -> None:
    """Drawn without replacement, the last one ends it; of all there could be, doubt is left."""
    outcomes = np.random.default_rng(0).permutation(population(0.1, 0.05, 400))
    for finite in (True, False):
        sequence = ConfidenceSequence(Bounded(-1.0, 1.0, 400 if finite else None), 0.95)
        sequence.add(outcomes)
        low, high = sequence.interval()
        assert low <= 0.05 <= high
        assert (high - low < 0.01) is finite


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), n=st.integers(1, 300), low=st.floats(-2, 0), span=st.floats(0.5, 3))
def test_the_interval_lies_within_the_bounds_and_agrees_with_the_test(
    seed: int, n: int, low: float, span: float
) -> None:
    """It encloses the mean so far, and what lies clearly outside of it is excluded."""
    outcomes = low + span * np.random.default_rng(seed).beta(2.0, 5.0, n)
    sequence = ConfidenceSequence(Bounded(low, low + span, None), 0.95)
    sequence.add(outcomes)
    first, last = sequence.interval()
    slack = 0.011 * span
    assert low - 1e-9 <= first <= sequence.mean + slack
    assert sequence.mean - slack <= last <= low + span + 1e-9
    assert not sequence.excludes(sequence.mean)
    for beyond in (first - slack, last + slack):
        assert sequence.excludes(beyond)


def test_nothing_is_excluded_before_the_first_outcome() -> None:
    """The whole range is left."""
    sequence = ConfidenceSequence(Bounded(-1.0, 1.0, 10), 0.95)
    assert sequence.n == 0
    assert not sequence.excludes(0.5)
    assert sequence.excludes(1.5)
    assert sequence.interval() == (-1.0, 1.0)
