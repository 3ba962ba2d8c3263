"""Ratios of interleaved times and bounds of percentiles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_quant.stats.ratio import paired_ratio, percentile_bounds


@given(ratio=st.floats(0.1, 10), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_a_common_factor_of_a_round_cancels(ratio: float, seed: int) -> None:
    """When the machine slows both engines in a round alike, the ratio is exact and its interval has no width."""
    rounds = np.random.default_rng(seed).lognormal(0, 1, 20)
    found = paired_ratio(list(ratio * rounds), list(rounds))
    assert (found.value, found.low, found.high) == pytest.approx((ratio, ratio, ratio))


def test_the_interval_of_a_median_agrees_with_scipy() -> None:
    """SciPy's percentile bootstrap of the median gives the same ends within its own noise."""
    values = np.random.default_rng(5).normal(10, 1, 40)
    found = paired_ratio(list(values), [1.0] * 40)
    expected = scipy_stats.bootstrap(
        (np.log(values),), np.median, method="percentile", n_resamples=4000, rng=np.random.default_rng(2)
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx((np.exp(expected.low), np.exp(expected.high)), abs=0.15)
    assert found.value == pytest.approx(np.exp(np.median(np.log(values))))


@pytest.mark.parametrize(("percentile", "enough"), [(90, 29), (95, 59), (99, 299), (50, 5)])
def test_an_upper_bound_needs_enough_samples(percentile: float, enough: int) -> None:
    """The least n with 1 - p^n >= 95 % has a bound, and one sample fewer has none."""
    assert 1 - (percentile / 100) ** enough >= 0.95 > 1 - (percentile / 100) ** (enough - 1)
    assert percentile_bounds(list(range(enough)), percentile)[1] == enough - 1
    assert percentile_bounds(list(range(enough - 1)), percentile)[1] is None


@given(n=st.integers(1, 600), percentile=st.sampled_from([50.0, 90.0, 95.0, 99.0]))
@settings(max_examples=50)
def test_bounds_are_the_order_statistics_of_the_binomial(n: int, percentile: float) -> None:
    """SciPy's binomial gives the same order statistics on both sides."""
    low, high = percentile_bounds(list(range(1, n + 1)), percentile)
    count = scipy_stats.binom(n, percentile / 100)
    uppers = [k for k in range(1, n + 1) if count.cdf(k - 1) >= 0.95]
    lowers = [k for k in range(1, n + 1) if count.sf(k - 1) >= 0.95]
    assert high == (min(uppers) if uppers else None)
    assert low == (max(lowers) if lowers else None)
