"""Quantiles and exact intervals are those of SciPy."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_quant.stats.quantiles import (
    beta_quantile,
    chi_square_below,
    chi_square_quantile,
    sd_interval,
    share_interval,
)

FREEDOM = st.floats(0.5, 500)
SHARE = st.floats(0.001, 0.999)


@given(value=st.floats(0.001, 1000), freedom=FREEDOM)
def test_the_distribution_of_chi_square(value: float, freedom: float) -> None:
    """By SciPy, for any degrees of freedom."""
    assert chi_square_below(value, freedom) == pytest.approx(scipy_stats.chi2.cdf(value, freedom), abs=1e-11)


@given(share=SHARE, freedom=FREEDOM)
def test_a_quantile_of_chi_square(share: float, freedom: float) -> None:
    """By SciPy."""
    assert chi_square_quantile(share, freedom) == pytest.approx(scipy_stats.chi2.ppf(share, freedom), rel=1e-8)


@given(share=SHARE, a=st.floats(0.5, 200), b=st.floats(0.5, 200))
def test_a_quantile_of_beta(share: float, a: float, b: float) -> None:
    """By SciPy."""
    assert beta_quantile(share, a, b) == pytest.approx(scipy_stats.beta.ppf(share, a, b), rel=1e-6, abs=1e-12)


@given(data=st.data(), trials=st.integers(1, 300))
def test_the_interval_of_a_share_is_clopper_and_pearsons(data: st.DataObject, trials: int) -> None:
    """By SciPy's exact interval, which is two-sided: each of its bounds has half of the error."""
    events = data.draw(st.integers(0, trials))
    exact = scipy_stats.binomtest(events, trials).proportion_ci(0.90, method="exact")
    assert share_interval(events, trials, 0.95) == pytest.approx((exact.low, exact.high), abs=1e-9)


@pytest.mark.parametrize("trials", [1, 5, 20, 200])
def test_no_event_is_bounded_by_the_formula(trials: int) -> None:
    """(1 - p)^n = 0.05; below 13.9 % for 20."""
    assert share_interval(0, trials) == pytest.approx((0.0, 1.0 - 0.05 ** (1.0 / trials)))


def test_the_interval_of_a_standard_deviation() -> None:
    """For 19 degrees of freedom, by SciPy."""
    low, high = sd_interval(2.0, 19.0)
    assert low == pytest.approx(2.0 * math.sqrt(19.0 / scipy_stats.chi2.ppf(0.975, 19)))
    assert high == pytest.approx(2.0 * math.sqrt(19.0 / scipy_stats.chi2.ppf(0.025, 19)))
