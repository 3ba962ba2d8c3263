"""The compute of a model before OpenVINO compiles it: which operators multiply, how often, and what is quantized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from pytest_quant.backends.openvino.layers import Shape, fixed_shapes

_CONVOLUTIONS = {"Convolution": (1, 1), "GroupConvolution": (1, 2), "DeformableConvolution": (2, 1)}
_TRANSPOSED = {"ConvolutionBackpropData": (1, 1), "GroupConvolutionBackpropData": (1, 2)}
"""By type the place of the weights among the inputs, and how many leading axes of them count output channels."""

_RECURRENT = frozenset({"GRUCell", "GRUSequence", "LSTMCell", "LSTMSequence", "RNNCell", "RNNSequence"})
_ATTENTION = "ScaledDotProductAttention"
_PRODUCTS = frozenset({"MatMul", _ATTENTION}) | _CONVOLUTIONS.keys() | _TRANSPOSED.keys() | _RECURRENT


@dataclass(frozen=True, slots=True)
class Source:
    """What the read-back must know of the model that was compiled.

    Attributes
    ----------
    macs : by the name of each operator that multiplies and accumulates how often; ``None`` where shapes do not tell.
    quantizers : names of the operators that round to few levels.
    """

    macs: Mapping[str, int | None]
    quantizers: frozenset[str]


def source_of(model: Any) -> Source:
    """Return the compute of `model`, whose shapes are fixed. Products of constants alone are none: they are folded."""
    macs: dict[str, int | None] = {}
    quantizers: set[str] = set()
    constants: set[str] = set()
    for node in model.get_ordered_ops():
        kind, name = node.get_type_name(), node.get_friendly_name()
        inputs = [port.get_source_output().get_node().get_friendly_name() for port in node.inputs()]
        if kind == "Constant" or (inputs and constants.issuperset(inputs)):
            constants.add(name)
        elif kind in _PRODUCTS:
            shapes = fixed_shapes(node)
            macs[name] = None if shapes is None else operator_macs(kind, shapes[:-1], shapes[-1])
        elif kind == "FakeQuantize":
            quantizers.add(name)
    return Source(macs, frozenset(quantizers))


def operator_macs(kind: str, inputs: tuple[Shape, ...], output: Shape) -> int | None:
    """Return the multiply-accumulates of an operator, bias and activation apart.

    A convolution takes one product for each weight of an output channel; weights are (out, in, ...), grouped ones
    (groups, out, in, ...). A transposed one does so for each element of its input. A product of matrices takes K for
    each output element, and a recurrent cell each of its weights (second and third from the end) in each step.
    """
    if kind in _CONVOLUTIONS:
        place, leading = _CONVOLUTIONS[kind]
        return prod(output) * prod(inputs[place][leading:])
    if kind in _TRANSPOSED:
        place, leading = _TRANSPOSED[kind]
        return prod(inputs[0]) * prod(inputs[place][leading:])
    if kind == "MatMul":
        rows = output[-2] if min(len(inputs[0]), len(inputs[1])) > 1 else 1
        return prod(output) * _depth(inputs, rows)
    if kind in _RECURRENT:
        return prod(inputs[0][:-1]) * (prod(inputs[-3]) + prod(inputs[-2]))
    if kind == _ATTENTION:
        queries, keys, values = inputs[:3]
        return prod(queries[:-1]) * keys[-2] * (queries[-1] + values[-1])
    return None


def _depth(inputs: tuple[Shape, ...], rows: int) -> int:
    """K of a product of matrices, either of which may be transposed: the first holds M x K elements."""
    first, second = inputs[:2]
    if len(first) == 1:
        return first[0]
    return second[0] if len(second) == 1 else prod(first[-2:]) // max(1, rows)
