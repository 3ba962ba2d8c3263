"""The class that scores best."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pytest_quant.metrics.top_class import top_class


@given(
    st.tuples(st.integers(1, 20), st.sampled_from([1, 2, 10, 64, 65])).flatmap(
        lambda shape: arrays(np.float32, shape, elements=st.sampled_from([-1.0, 0.0, 0.5, np.inf, -np.inf, np.nan]))
    )
)
def test_it_is_argmax(outputs: np.ndarray) -> None:
    """Also with ties, infinities and NaN, and whatever the number of classes."""
    assert np.array_equal(top_class(outputs), np.argmax(outputs, axis=1))


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_layout_does_not_matter(order: str) -> None:
    """Rows or columns side by side in memory."""
    outputs = np.asarray(np.random.default_rng(0).normal(size=(50, 10)), order=order)  # type: ignore[call-overload]
    assert np.array_equal(top_class(outputs), np.argmax(outputs, axis=1))
