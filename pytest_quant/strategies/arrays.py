"""Arrays that hypothesis can shrink: a simple base, and few elements set one by one.

An image has too many elements to draw each, so that bases come from a seed; what hypothesis finds then shrinks
towards a base of equal values with one element that matters.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_quant.strategies.ports import Port
from pytest_quant.strategies.spans import Span, is_float, one_value, simplest

_MAX_SPIKES = 4
_SEEDS = st.integers(0, 2**16 - 1)


@st.composite
def made_array(draw: st.DrawFn, port: Port, span: Span | None, shape: tuple[int, ...]) -> NDArray[Any]:
    """Draw an array of `shape` for an input without real samples: all simplest, all equal, or from a seed."""
    base = draw(st.sampled_from(("simplest", "equal", "seeded")))
    array = simplest(port, span, shape)
    if base == "equal" and array.size:
        array[...] = draw(one_value(port, span, 0))
    if base == "seeded" and span is not None:
        array = _seeded(port, span, shape, draw(_SEEDS))
    return draw(spiked(port, span, array))


@st.composite
def spiked(draw: st.DrawFn, port: Port, span: Span | None, array: NDArray[Any]) -> NDArray[Any]:
    """Draw `array` with up to four of its elements set to values within the span; without any when shrunk."""
    array = np.array(array)
    if array.size == 0:
        return array
    for position in draw(st.lists(st.integers(0, array.size - 1), max_size=_MAX_SPIKES, unique=True)):
        array.reshape(-1)[position] = draw(one_value(port, span, position))
    return array


@st.composite
def noised(draw: st.DrawFn, port: Port, span: Span, array: NDArray[Any]) -> NDArray[Any]:
    """Draw `array` with normal noise of up to a tenth of the span's half-width, kept within the span."""
    amplitude = draw(st.floats(0.0, 0.1))
    noise = np.random.default_rng(draw(_SEEDS)).standard_normal(array.shape)
    return clipped(array.astype(np.float64) + amplitude * span.half_width * noise, port, span)


def clipped(values: NDArray[np.float64], port: Port, span: Span) -> NDArray[Any]:
    """Return `values` within the span and in the input's dtype."""
    return np.clip(values, span.low, span.high).astype(port.dtype)


def _seeded(port: Port, span: Span, shape: tuple[int, ...], seed: int) -> NDArray[Any]:
    """Return values spread evenly over the span."""
    random = np.random.default_rng(seed)
    if not is_float(port):
        return random.integers(int(span.low), int(span.high), shape, endpoint=True).astype(port.dtype)
    shares = random.random(prod(shape)).reshape(shape)
    return clipped(span.middle + span.half_width * (2 * shares - 1), port, span)
