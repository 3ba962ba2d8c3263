"""Arrays that hypothesis can shrink: a simple base, a range for each input, and a few elements that are drawn.

An image has too many elements to draw each, so that a base is generated from a seed; a failing example shrinks towards
a base of equal values with one element that matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_quant.errors import UsageError
from pytest_quant.strategies.ports import Port

_MAX_SPIKES = 4
_SEEDS = st.integers(0, 2**16 - 1)


@st.composite
def made_array(draw: st.DrawFn, port: Port, span: Span | None, shape: tuple[int, ...]) -> NDArray[Any]:
    """Draw an array for an input without real samples: all zero, all equal, or generated from a seed.

    Parameters
    ----------
    port : the input.
    span : range of its values; ``None`` for text and booleans.
    shape : of the array.
    """
    base = draw(st.sampled_from(("simplest", "equal", "seeded")))
    array = simplest(port, span, shape)
    if base == "equal" and array.size:
        array[...] = draw(one_value(port, span, 0))
    if base == "seeded" and span is not None:
        array = _seeded(port, span, shape, draw(_SEEDS))
    return draw(spiked(port, span, array))


@st.composite
def spiked(draw: st.DrawFn, port: Port, span: Span | None, array: NDArray[Any]) -> NDArray[Any]:
    """Draw a copy of `array` with up to four elements replaced; none when shrunk.

    Parameters
    ----------
    port : the input.
    span : range of the new values; ``None`` for text and booleans.
    array : of any shape.
    """
    array = np.array(array)
    if array.size == 0:
        return array
    for position in draw(st.lists(st.integers(0, array.size - 1), max_size=_MAX_SPIKES, unique=True)):
        array.reshape(-1)[position] = draw(one_value(port, span, position))
    return array


@st.composite
def noised(draw: st.DrawFn, port: Port, span: Span, array: NDArray[Any]) -> NDArray[Any]:
    """Draw `array` with normal noise, clipped to the span.

    Parameters
    ----------
    port : a float input.
    span : range of its values; the noise has a standard deviation of up to a tenth of its half-width.
    array : of any shape.
    """
    amplitude = draw(st.floats(0.0, 0.1))
    noise = np.random.default_rng(draw(_SEEDS)).standard_normal(array.shape)
    return clipped(array.astype(np.float64) + amplitude * span.half_width * noise, port, span)


def clipped(values: NDArray[np.float64], port: Port, span: Span) -> NDArray[Any]:
    """Return `values` clipped to the span, in the input's dtype.

    Parameters
    ----------
    values : in float64.
    port : gives the dtype.
    span : range of the result.
    """
    return np.clip(values, span.low, span.high).astype(port.dtype)


def _seeded(port: Port, span: Span, shape: tuple[int, ...], seed: int) -> NDArray[Any]:
    """Return values from a uniform distribution over the span."""
    chance = np.random.default_rng(seed)
    if not is_float(port):
        return chance.integers(int(span.low), int(span.high), shape, endpoint=True).astype(port.dtype)
    shares = chance.random(prod(shape)).reshape(shape)
    return clipped(span.middle + span.half_width * (2 * shares - 1), port, span)


Bounds = Mapping[str, tuple[float, float]]
"""Smallest and largest value by input name."""

_NARROW_INTEGERS = ("int8", "uint8")
"""Integers that are quantities such as pixels; wider ones are ids, and not every id is valid."""


@dataclass(frozen=True, slots=True)
class Span:
    """Smallest and largest value of one input: numbers, or arrays (features,) with one for each element."""

    low: NDArray[Any]
    high: NDArray[Any]

    @property
    def middle(self) -> NDArray[np.float64]:
        """The middle of the range, in float64."""
        return self.low.astype(np.float64) / 2 + self.high.astype(np.float64) / 2

    @property
    def half_width(self) -> NDArray[np.float64]:
        """Half of the range's width, in float64."""
        return self.high.astype(np.float64) / 2 - self.low.astype(np.float64) / 2

    def at(self, position: int) -> tuple[Any, Any]:
        """Return smallest and largest value of one element of a sample, by its index in the flattened sample."""
        return self.low.flat[position % self.low.size], self.high.flat[position % self.high.size]


def is_float(port: Port) -> bool:
    """Whether the input takes floating-point numbers."""
    return port.dtype == "bfloat16" or np.dtype(port.dtype).kind == "f"


def find_span(port: Port, samples: NDArray[Any] | None, bounds: Bounds, scale: float) -> Span | None:
    """Return the range of an input's values; ``None`` for text and booleans.

    The caller's bounds take precedence, then the embedding table for integers, then real samples.

    Parameters
    ----------
    port : the input.
    bounds : smallest and largest value by input name, as the caller gives them.
    samples : values of real samples, (n, features) where each element has a range of its own, else flat.
    scale : for floats, half-width relative to that of the samples; without samples, half-width around 0.

    Raises
    ------
    UsageError : the bounds are no range of that dtype, or it is not known which integers are valid.
    """
    if port.dtype in ("object", "str", "bool"):
        return None
    if port.name in bounds:
        return _stated(port, bounds[port.name])
    if is_float(port):
        low, high = (np.float64(-1), np.float64(1)) if samples is None else (samples.min(axis=0), samples.max(axis=0))
        own = Span(np.asarray(low), np.asarray(high))
        return Span(*(_in_dtype(own.middle + sign * scale * own.half_width, port) for sign in (-1, 1)))
    if port.table_rows is not None:
        return Span(np.asarray(0), np.asarray(port.table_rows - 1))
    if samples is not None:
        return Span(np.asarray(samples.min()), np.asarray(samples.max()))
    if port.dtype in _NARROW_INTEGERS:
        limits = np.iinfo(port.dtype)
        return Span(np.asarray(limits.min), np.asarray(limits.max))
    raise UsageError(
        f"which values input '{port.name}' takes is not known",
        value=f"{port.dtype}, and the graph shows no embedding table that it indexes",
        allowed="real samples, or bounds",
        fix=f"give data=..., or bounds={{'{port.name}': (0, 1)}}",
    )


def one_value(port: Port, span: Span | None, position: int) -> st.SearchStrategy[Any]:
    """Return a strategy for one element, which often draws the ends of the range, zero and the smallest numbers.

    Parameters
    ----------
    port : the input.
    span : range of its values; ``None`` for text and booleans.
    position : index of the element in the flattened sample.
    """
    if port.dtype == "bool":
        return st.booleans()
    if span is None:
        return st.text(max_size=8)
    low, high = span.at(position)
    if not is_float(port):
        return st.integers(int(low), int(high))
    width = {2: 16, 4: 32}.get(_drawn_dtype(port).itemsize, 64)
    return st.floats(float(low), float(high), width=width)  # type: ignore[arg-type]  # one of the three


def simplest(port: Port, span: Span | None, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an array of zeros, or of the values nearest to zero within the span.

    Parameters
    ----------
    port : the input.
    span : range of its values; ``None`` for text and booleans, whose simplest values are empty and false.
    shape : of the array.
    """
    if span is None:
        return np.full(shape, "" if port.dtype != "bool" else False, np.dtype(_storage(port)))
    return np.broadcast_to(np.clip(0, span.low, span.high), shape).astype(port.dtype)


def _storage(port: Port) -> str:
    return "object" if port.dtype in ("object", "str") else port.dtype


def _stated(port: Port, bounds: tuple[float, float]) -> Span:
    low, high = bounds
    limits = _limits(port)
    if not limits[0] <= low <= high <= limits[1]:
        raise UsageError(
            f"bounds of input '{port.name}' are no range of {port.dtype}",
            value=repr(bounds),
            allowed=f"(smallest, largest) within {limits[0]} and {limits[1]}",
        )
    dtype = _drawn_dtype(port) if is_float(port) else None
    return Span(np.asarray(low, dtype), np.asarray(high, dtype))


def _in_dtype(values: NDArray[np.float64], port: Port) -> NDArray[Any]:
    return np.asarray(np.clip(values, *_limits(port)).astype(_drawn_dtype(port)))


def _limits(port: Port) -> tuple[float, float]:
    if not is_float(port):
        return int(np.iinfo(port.dtype).min), int(np.iinfo(port.dtype).max)
    limits = np.finfo(_drawn_dtype(port))
    return float(limits.min), float(limits.max)


def _drawn_dtype(port: Port) -> np.dtype[Any]:
    """Return the dtype that values of a float input are drawn in: numpy has none for bfloat16."""
    return np.dtype("float32" if port.dtype == "bfloat16" else port.dtype)
