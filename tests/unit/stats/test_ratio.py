"""Intervals of a median over rounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_quant.stats.ratio import fewest_rounds, paired_ratio

TIMES = st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=2, max_size=30)


@given(confidence=st.floats(0.5, 0.9999))
def test_fewer_rounds_cannot_reach_the_confidence(confidence: float) -> None:
    """A median lies outside the range of n values when all n are on one side: binomial(n, 1/2), by SciPy."""
    n = fewest_rounds(confidence)
    outside = [2 * scipy_stats.binom.pmf(0, count, 0.5) for count in (n, n - 1)]
    assert 1 - outside[0] >= confidence - 1e-12
    assert 1 - outside[1] <= confidence + 1e-12


def test_six_rounds_are_the_fewest_at_95_percent() -> None:
    """1 - 2 / 2^6 is 96.9 %, and 1 - 2 / 2^5 is 93.8 %."""
    assert fewest_rounds(0.95) == 6


@pytest.mark.parametrize("n", [9, 15, 21])
def test_the_interval_is_that_of_the_exact_bootstrap(n: int) -> None:
    """For odd n the bootstrap's median is at most the k-th value with P(binomial(n, k / n) > n / 2), by SciPy."""
    values = np.sort(np.random.default_rng(n).normal(10, 1, n))
    cdf = [scipy_stats.binom.sf(n // 2, n, k / n) for k in range(n + 1)]
    found = paired_ratio(list(values), [1.0] * n)
    # 2000 resamples put the ends within 2 % of their places in that distribution.
    for end, tail in ((found.low, 0.025), (found.high, 0.975)):
        below = int(np.searchsorted(values, end - 1e-9))
        assert cdf[below] <= tail + 0.02
        assert cdf[below + 1] >= tail - 0.02


@given(times=TIMES, seed=st.integers(0, 9))
def test_turned_round_the_ratio_is_its_inverse(times: list[tuple[float, float]], seed: int) -> None:
    """Estimate and interval; the estimate lies within."""
    one, two = [pair[0] for pair in times], [pair[1] for pair in times]
    found, turned = paired_ratio(one, two, seed=seed), paired_ratio(two, one, seed=seed)
    assert (turned.value, turned.low, turned.high) == pytest.approx((1 / found.value, 1 / found.high, 1 / found.low))
    assert found.low <= found.value * (1 + 1e-12)
    assert found.high >= found.value * (1 - 1e-12)
