"""How many runs a percentile needs, and how often its bounds hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_quant.stats.ratio import percentile_bounds, runs_needed


@pytest.mark.parametrize(("percentile", "runs"), [(90, 29), (95, 59), (99, 299), (99.9, 2995)])
def test_the_runs_needed_are_the_known_ones(percentile: float, runs: int) -> None:
    """At 95 % with no run beyond the limit."""
    assert runs_needed(percentile) == runs


@given(percentile=st.floats(1, 99.9), confidence=st.floats(0.5, 0.999))
def test_so_many_runs_are_enough_and_one_fewer_is_not(percentile: float, confidence: float) -> None:
    """The largest of n lies above the percentile unless all n lie below: binomial(n, p), by SciPy."""
    n = runs_needed(percentile, confidence)
    all_below = scipy_stats.binom.pmf([n, n - 1], [n, n - 1], percentile / 100)
    assert 1 - all_below[0] >= confidence - 1e-12
    assert n == 1 or 1 - all_below[1] <= confidence + 1e-12


@pytest.mark.parametrize("percentile", [50.0, 90.0])
def test_each_bound_holds_as_often_as_it_says(percentile: float) -> None:
    """Of 2000 exponential samples of 60, each bound is on its side of the true percentile 95 % of the time or more."""
    draws = np.random.default_rng(7).exponential(size=(2000, 60))
    true = scipy_stats.expon.ppf(percentile / 100)
    bounds = [percentile_bounds(list(draw), percentile) for draw in draws]
    assert np.mean([low is not None and low <= true for low, _ in bounds]) >= 0.94
    assert np.mean([high is not None and high >= true for _, high in bounds]) >= 0.94


def test_very_many_runs_do_not_overflow() -> None:
    """The bounds of the median of 100 000 runs lie where the normal approximation puts them."""
    low, high = percentile_bounds(list(range(100_000)), 50.0)
    half_width = scipy_stats.norm.ppf(0.95) * np.sqrt(100_000) / 2
    assert (low, high) == pytest.approx((50_000 - half_width, 50_000 + half_width), abs=2)
