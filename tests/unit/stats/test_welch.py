"""Welch's test and Student's distribution against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_quant.stats.ratio import student_quantile, student_tails, welch

_GROUPS = st.lists(st.integers(-1000, 1000).map(float), min_size=2, max_size=12)


@pytest.mark.filterwarnings("ignore:Precision loss:RuntimeWarning")  # SciPy, of a group without any spread
@settings(max_examples=80)
@given(_GROUPS, _GROUPS, st.sampled_from([0.9, 0.95, 0.99]))
def test_it_is_scipys_test_with_unequal_variances(first: list[float], second: list[float], confidence: float) -> None:
    """The p value and both ends of the interval agree, whatever the sizes of the groups."""
    found = welch(first, second, confidence=confidence)
    if np.var(first) + np.var(second) < 1e-12:
        assert found.p_value == (1.0 if found.value == 0.0 else 0.0)
        return
    expected = scipy_stats.ttest_ind(second, first, equal_var=False)
    span = expected.confidence_interval(confidence)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-8, abs=1e-300)
    assert (found.low, found.high) == pytest.approx((span.low, span.high), rel=1e-8, abs=1e-10)


@settings(max_examples=80)
@given(st.floats(0.0, 500.0), st.floats(1.0, 500.0))
def test_tails_are_those_of_student(t: float, freedom: float) -> None:
    """Both tails together, far out as well as near 0."""
    assert student_tails(t, freedom) == pytest.approx(2.0 * scipy_stats.t.sf(t, freedom), rel=1e-8, abs=1e-250)


@pytest.mark.parametrize("freedom", [1.0, 1.5, 4.0, 8.0, 38.0, 1000.0])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_quantile_is_that_of_student(confidence: float, freedom: float) -> None:
    """It encloses the confidence between its negative and itself."""
    assert student_quantile(confidence, freedom) == pytest.approx(scipy_stats.t.ppf(0.5 + confidence / 2, freedom))


def test_a_group_is_like_itself() -> None:
    """The difference is 0 exactly, and so p is 1."""
    group = [0.1, 0.2, 0.7]
    assert welch(group, group).value == 0.0
    assert welch(group, group).p_value == 1.0


def test_nothing_varies_and_the_means_differ() -> None:
    """No chance is left that they are equal."""
    found = welch([1.0, 1.0], [2.0, 2.0, 2.0])
    assert (found.value, found.low, found.high, found.p_value) == (1.0, 1.0, 1.0, 0.0)
