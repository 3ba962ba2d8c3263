"""Rounding in the reference backend is rounding."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from pytest_quant.testing.numpy_engine import round_weights

WEIGHTS = arrays(np.float32, (5, 4), elements=st.floats(-100, 100, width=32))


@given(WEIGHTS, st.sampled_from([0, 1, -1]))
def test_error_is_at_most_half_a_step(weights: NDArray[np.float32], axis: int) -> None:
    """No weight moves by more than half of max|w| / 127 of its channel."""
    other = 1 if axis == 0 else 0
    step = np.abs(weights).max(axis=other, keepdims=True) / 127
    assert np.all(np.abs(round_weights(weights, axis) - weights) <= step * 0.5 * (1 + 1e-4) + 1e-30)


@given(WEIGHTS)
def test_at_most_255_levels(weights: NDArray[np.float32]) -> None:
    """Each channel holds whole multiples of its step, from -127 to 127."""
    step = np.abs(weights).max(axis=1, keepdims=True) / 127
    levels = round_weights(weights, 0) / np.where(step > 1e-30, step, 1)
    assert np.all(np.abs(levels - np.round(levels)) < 1e-3)
    assert np.all(np.abs(np.round(levels)) <= 127)


def test_channels_are_apart() -> None:
    """A large channel does not coarsen a small one."""
    weights = np.array([[100.0, 50.0], [0.001, 0.0005]], np.float32)
    np.testing.assert_allclose(round_weights(weights, 0), weights, rtol=0.01)
