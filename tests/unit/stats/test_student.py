"""Student's distribution against SciPy."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_quant.stats.ratio import student_quantile, student_tails


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
