"""The products of a quantized OpenVINO model whose sums of two products 16 bits may not hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends.openvino.files import ENGINE_FILE, read_model
from pytest_quant.backends.saturation import MOST, Exposed, largest_pair

_OUTPUT_AXES = {"Convolution": 1, "GroupConvolution": 2}
"""Convolutions that oneDNN computes in integers, and how many axes of their weights come before what is added up."""

_MOVING = ("Convert", "FakeQuantize", "Multiply", "Reshape", "Squeeze", "Subtract", "Transpose", "Unsqueeze")
"""Operators between a factor and its integers."""


def find_exposed(folder: Path) -> tuple[Exposed, ...]:
    """Return the products of an engine whose sums of two products may pass `MOST`, the largest first.

    Those of activations with activations count as of any int8. A product whose inputs are in float is none, and neither
    is a convolution of single channels, whose kernel adds in 32 bits.
    """
    found = []
    for operation in read_model(folder / ENGINE_FILE).get_ordered_ops():
        kind = operation.get_type_name()
        is_single = kind == "GroupConvolution" and list(operation.get_input_shape(1))[1:3] == [1, 1]
        if kind == "MatMul" or (kind in _OUTPUT_AXES and not is_single):
            data, factor = (list(_sources(operation.input_value(place))) for place in (0, 1))
            if _is_quantized(data):
                largest = _largest(operation, factor)
                found += [Exposed(operation.get_friendly_name(), largest)] if largest > MOST else []
    return tuple(sorted(found, key=lambda each: -each.largest))


def _sources(port: Any) -> Iterator[Any]:
    """Yield the operations that give a factor its values, the nearest first, up to one that computes."""
    node = port.get_node()
    while node.get_type_name() in _MOVING:
        yield node
        node = node.input_value(0).get_node()
    yield node


def _is_quantized(sources: list[Any]) -> bool:
    return any(node.get_type_name() == "FakeQuantize" for node in sources)


def _largest(operation: Any, sources: list[Any]) -> float:
    """Return the magnitude of the largest sum of two products, infinity where the integers are not in the file."""
    constant = sources[-1]
    weights: NDArray[Any] = constant.data if constant.get_type_name() == "Constant" else np.empty(0)
    if weights.dtype == np.uint8:
        # Their zero point is the middle.
        weights = weights.astype(np.int16) - 128
    if weights.dtype.kind != "i":
        # Floats behind a FakeQuantize, as those of groups, are rounded when the model is compiled, and what is computed
        # in each run.
        return math.inf if _is_quantized(sources) else 0.0
    axes = _OUTPUT_AXES.get(operation.get_type_name())
    if axes is not None:
        return float(largest_pair(weights.reshape(math.prod(weights.shape[:axes]), -1).T))
    if operation.get_attributes()["transpose_b"]:
        weights = np.swapaxes(weights, -1, -2)
    return float(largest_pair(np.moveaxis(weights, -2, 0).reshape(weights.shape[-2], -1)))
