"""The products of a quantized ONNX file, their integer factors, and whether 16 bits hold sums of two products."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.inliner import inline_local_functions
from onnx.reference import ReferenceEvaluator

from pytest_quant.backends.onnx_files.graphs import STANDARD, all_graphs, all_nodes, dequantizer_of
from pytest_quant.backends.ort.build import engine_file
from pytest_quant.backends.saturation import MOST, Exposed, largest_pair
from pytest_quant.spec import EngineSpec

_FLOAT = ("Conv", "Gemm", "MatMul")
"""Products that ONNX Runtime turns into integer ones where both factors were dequantized."""

_INTEGER = ("ConvInteger", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "QAttention")
_WEIGHTS = {
    **dict.fromkeys(_FLOAT + _INTEGER, (1,)),
    **dict.fromkeys(("QGemm", "QLinearConv", "QLinearMatMul"), (3,)),
    "DynamicQuantizeLSTM": (1, 2),
}
"""Products by their operator, and which inputs are the second factor."""

_NO_PRODUCTS = ("DequantizeLinear", "QuantizeLinear")
"""Operators of ONNX Runtime's own that read integers and multiply none."""

_INT8, _UINT8 = onnx.TensorProto.INT8, onnx.TensorProto.UINT8


@dataclass(frozen=True, slots=True)
class KnownGraph:
    """What names stand for, in the graph of a model and in those inside it.

    Attributes
    ----------
    makers : the node that gives each tensor.
    constants : by name.
    """

    makers: Mapping[str, onnx.NodeProto]
    constants: Mapping[str, onnx.TensorProto]


def find_exposed(spec: EngineSpec, folder: Path) -> tuple[Exposed, ...]:
    """Return the products of an engine whose sums of two products may pass `MOST`, the largest first.

    Weights of uint8 run in kernels that widen. A factor that is not in the file counts as any int8, and so do the
    weights of an operator that is not known.
    """
    model = inline_local_functions(onnx.load(engine_file(spec, folder)))
    found, graph = [], know_graph(model)
    for node in all_nodes(model):
        sums = [largest_sum(node, graph, name) for name in _second_factors(node, graph)]
        name = (node.name or node.output[0]).removesuffix("_quant")
        found += [Exposed(name, most) for most in sums if most > MOST]
    return tuple(sorted(found, key=lambda each: -each.largest))


def know_graph(model: onnx.ModelProto) -> KnownGraph:
    """Return what names stand for in a model."""
    graphs = list(all_graphs(model.graph))
    makers = {name: node for graph in graphs for node in graph.node for name in node.output}
    constants = {tensor.name: tensor for graph in graphs for tensor in graph.initializer}
    held = [(name, node.attribute) for name, node in makers.items() if node.op_type == "Constant"]
    constants |= {name: each.t for name, attributes in held for each in attributes if each.name == "value"}
    # Weights in float behind a QuantizeLinear are as constant as those that were quantized before.
    for name, node in makers.items():
        kinds = [constants[each].data_type for each in node.input if each in constants]
        if node.op_type == "QuantizeLinear" and node.domain in STANDARD and kinds[2:] in ([_INT8], [_UINT8]):
            feeds = {each: numpy_helper.to_array(constants[each]) for each in node.input if each}
            (levels,) = ReferenceEvaluator(node).run(None, feeds)
            constants[name] = numpy_helper.from_array(np.asarray(levels))
    return KnownGraph(makers, constants)


def _second_factors(node: onnx.NodeProto, graph: KnownGraph) -> list[str]:
    """Return the integers that `node` multiplies others with, by name; empty names for those that nobody sees."""
    places = _WEIGHTS.get(node.op_type)
    if places is None:
        return [""] if node.op_type not in _NO_PRODUCTS and _reads_weights(node, graph) else []
    if node.op_type not in _FLOAT:
        return [node.input[place] for place in places]
    left, right = (dequantizer_of(name, graph.makers) for name in node.input[:2])
    if left is None:
        # Weights in blocks are multiplied in integers: the session rounds the other factor as it runs.
        in_blocks = right is not None and any(each.name == "block_size" and each.i for each in right.attribute)
        return [""] if in_blocks else []
    if right is None:
        # The session quantizes float weights behind a dequantized input when it opens, but not those of MatMul.
        return [] if node.op_type == "MatMul" else [""]
    return [right.input[0]]


def _reads_weights(node: onnx.NodeProto, graph: KnownGraph) -> bool:
    """Tell whether `node` has weights of eight bits; those of four cannot make 16 bits overflow."""
    constants = [graph.constants[name] for name in node.input if name in graph.constants]
    is_wide = any((each.name, each.i) == ("bits", 8) for each in node.attribute)
    has_weights = is_wide or any(each.data_type == _INT8 and len(each.dims) > 1 for each in constants)
    return has_weights and node.domain not in STANDARD


def kind_of_factor(name: str, graph: KnownGraph) -> int:
    """Return the type of an integer factor, by its value or by what quantizes it; 0 where that is not seen."""
    if name in graph.constants:
        return graph.constants[name].data_type
    maker = graph.makers.get(name)
    if maker is not None and maker.op_type == "DynamicQuantizeLinear":
        return _UINT8
    zero = maker.input[2] if maker is not None and maker.op_type == "QuantizeLinear" and len(maker.input) > 2 else ""
    return graph.constants[zero].data_type if zero in graph.constants else 0


def largest_sum(node: onnx.NodeProto, graph: KnownGraph, factor: str) -> float:
    """Return the magnitude of the largest sum of two products of `node`, infinity for a factor that is not seen.

    0 where kernels add in 32 bits: two unsigned factors, and convolutions of single channels.
    """
    kind, weight = kind_of_factor(factor, graph), graph.constants.get(factor)
    groups = next((each.i for each in node.attribute if each.name == "group"), 1)
    has_single_channels = weight is not None and list(weight.dims[:2]) == [groups, 1] and groups > 1
    if kind == _UINT8 or (has_single_channels and node.op_type in ("Conv", "QLinearConv")):
        return 0.0
    if weight is None or kind != _INT8:
        return math.inf
    return float(largest_pair(columns_of(node, numpy_helper.to_array(weight))))


def columns_of(node: onnx.NodeProto, weight: NDArray[Any]) -> NDArray[Any]:
    """Return weights as (k, n), with what is added up for an output in a column."""
    if "Conv" in node.op_type:
        return weight.reshape(weight.shape[0], -1).T
    if any(each.name == "transB" and each.i for each in node.attribute):
        return weight.T
    return weight.reshape(-1, 1) if weight.ndim < 2 else np.moveaxis(weight, -2, 0).reshape(weight.shape[-2], -1)
