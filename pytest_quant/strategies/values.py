"""Values of one input that hypothesis can shrink: a base, and a few elements of it that are drawn.

An image has too many elements to draw each. A failing example shrinks towards the base with one element that matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_quant.errors import UsageError

_MAX_REPLACED = 4

Bounds = Mapping[str, tuple[float, float]]
"""Smallest and largest value by input name."""

Span: TypeAlias = tuple[NDArray[Any], NDArray[Any]]
"""Smallest and largest value of one input: numbers, or arrays (features,) with one for each element of a sample."""

_NARROW_INTEGERS = ("int8", "uint8")
"""Integers that are quantities such as pixels; wider ones are ids, and not every id is valid."""


@dataclass(frozen=True, slots=True)
class Port:
    """One input.

    Attributes
    ----------
    axes : a size, or the name of a free axis, for each axis; axes of one name have the same size in a run.
        ``None`` when the rank is unknown.
    table_rows : number of rows of the embedding table that the values index; ``None`` where none is detected.
    """

    name: str
    dtype: str
    axes: tuple[int | str, ...] | None
    table_rows: int | None = None

    @property
    def is_text(self) -> bool:
        """Whether the values are text."""
        return self.dtype in ("object", "str")

    @property
    def drawn_dtype(self) -> np.dtype[Any]:
        """The dtype that values are drawn in: numpy has none for bfloat16."""
        return np.dtype({"bfloat16": "float32", "str": "object"}.get(self.dtype, self.dtype))

    @property
    def is_float(self) -> bool:
        """Whether the values are floating-point numbers."""
        return self.drawn_dtype.kind == "f"


def find_span(port: Port, samples: NDArray[Any] | None, bounds: Bounds, scale: float) -> Span | None:
    """Return the range of an input's values; ``None`` for text and booleans.

    The caller's bounds take precedence, then the embedding table for integers, then real samples.

    Parameters
    ----------
    port : the input.
    samples : values of real samples, (n, features) where each element has a range of its own, else flat.
    bounds : as the caller gives them.
    scale : for floats, half-width relative to that of the samples; without samples, half-width around 0.

    Raises
    ------
    UsageError : the bounds are no range of that dtype, or it is not known which integers are valid.
    """
    if port.is_text or port.dtype == "bool":
        return None
    limits = np.finfo(port.drawn_dtype) if port.is_float else np.iinfo(port.drawn_dtype)
    low, high = np.asarray(limits.min), np.asarray(limits.max)
    if port.name in bounds:
        return _stated(port, bounds[port.name], (low.item(), high.item()))
    if port.is_float:
        ends = (np.float64(-1), np.float64(1)) if samples is None else (samples.min(axis=0), samples.max(axis=0))
        # Halved before they are added, because the sum of two large numbers is infinite.
        first, last = (np.asarray(end, np.float64) / 2 for end in ends)
        middle, half_width = first + last, scale * (last - first)
        spread = (np.clip(middle + sign * half_width, low, high).astype(port.drawn_dtype) for sign in (-1, 1))
        first, last = map(np.asarray, spread)
        return first, last
    if port.table_rows is not None:
        return np.asarray(0), np.asarray(port.table_rows - 1)
    if samples is not None:
        return np.asarray(samples.min()), np.asarray(samples.max())
    if port.dtype in _NARROW_INTEGERS:
        return low, high
    raise UsageError(
        f"which values input '{port.name}' takes is not known",
        value=f"{port.dtype}, and the graph shows no embedding table that it indexes",
        allowed="real samples, or bounds",
        fix=f"give data=..., or bounds={{'{port.name}': (0, 1)}}",
    )


def _stated(port: Port, bounds: tuple[float, float], limits: tuple[float, float]) -> Span:
    if not limits[0] <= bounds[0] <= bounds[1] <= limits[1]:
        raise UsageError(
            f"bounds of input '{port.name}' are no range of {port.dtype}",
            value=repr(bounds),
            allowed=f"(smallest, largest) within {limits[0]} and {limits[1]}",
        )
    dtype = port.drawn_dtype if port.is_float else None
    return np.asarray(bounds[0], dtype), np.asarray(bounds[1], dtype)


@st.composite
def base_array(draw: st.DrawFn, port: Port, span: Span | None, shape: tuple[int, ...]) -> NDArray[Any]:
    """Draw an array for an input without real samples, whose elements are equal; it shrinks to the nearest to zero.

    Parameters
    ----------
    port : the input.
    span : range of its values; ``None`` for text and booleans, which shrink to empty and false.
    shape : of the array.
    """
    array = np.full(shape, draw(_element(port, span, 0)), port.drawn_dtype)
    return array if port.is_text else array.astype(port.dtype)


@st.composite
def replaced(draw: st.DrawFn, port: Port, span: Span | None, array: NDArray[Any]) -> NDArray[Any]:
    """Draw a copy of `array` with up to four elements replaced by values within `span`; none when shrunk."""
    array = np.array(array)
    if array.size == 0:
        return array
    for position in draw(st.lists(st.integers(0, array.size - 1), max_size=_MAX_REPLACED, unique=True)):
        array.reshape(-1)[position] = draw(_element(port, span, position))
    return array


def _element(port: Port, span: Span | None, position: int) -> st.SearchStrategy[Any]:
    """Return a strategy for the element at an index of the flattened sample."""
    if span is None:
        return st.text(max_size=8) if port.is_text else st.booleans()
    low, high = (end.flat[position % end.size] for end in span)
    if not port.is_float:
        return st.integers(int(low), int(high))
    width = {2: 16, 4: 32}.get(port.drawn_dtype.itemsize, 64)
    return st.floats(float(low), float(high), width=width)  # type: ignore[arg-type]  # one of the three
