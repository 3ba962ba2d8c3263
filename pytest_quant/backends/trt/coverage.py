"""What a built engine computes in: counted from its layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.ort.products import find_products
from pytest_quant.backends.tally import Kind, Tallied, tally
from pytest_quant.backends.trt.layers import Layer
from pytest_quant.result import Coverage

_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
COMPUTE_OPS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"}) | _RECURRENT
"""ONNX operators that multiply and accumulate."""

_POINTWISE = frozenset(
    {"kgen", "shape_call", "signal", "wait", "Reformat", "NoOp", "Constant", "Myelin", "ForeignNode"}
)
"""Layer types that hold no product of their own; one that swallowed a product cannot be seen into."""

_PRECISIONS = {"Float": "fp32", "Half": "fp16", "BFloat16": "bf16", "Int8": "int8", "FP8": "fp8", "Int4": "int4"}


def ops_of(graph: onnx.GraphProto) -> dict[str, str]:
    """Return the op type of every node of `graph` by the name that TensorRT's parser gives it."""
    return {node.name or f"node_of_{node.output[0]}": node.op_type for node in graph.node}


def macs_by_node(path: Path, feeds: Feeds) -> dict[str, int | None]:
    """Return the multiply-accumulates of the products of the ONNX file in `path`, by the parser's name for each."""
    return {one.name or f"node_of_{one.aliases[0]}": one.macs for one in find_products(path, feeds)}


def count_layers(
    layers: Sequence[Layer], ops: Mapping[str, str], precision: str, provider: str, macs: Mapping[str, int | None]
) -> Coverage:
    """Return the share of products that read their activations in `precision`, by MACs where all are known.

    Parameters
    ----------
    ops : see `ops_of`.
    macs : see `macs_by_node`.
    """
    found = [
        Tallied(name, op, _kind(layers, name, op, precision), macs.get(name))
        for name, op in ops.items()
        if op in COMPUTE_OPS
    ]
    return tally(found, provider)


def _kind(layers: Sequence[Layer], name: str, op: str, precision: str) -> Kind:
    """What the layers that mention a node tell of it; TensorRT has no integer form of a recurrence."""
    if op in _RECURRENT and precision == "int8":
        return Kind.OTHER
    mentioning = [layer for layer in layers if name in layer.nodes]
    products = [layer for layer in mentioning if layer.kind not in _POINTWISE]
    if not products:
        return Kind.OPAQUE
    asked = all(layer.input_types and _PRECISIONS.get(layer.input_types[0]) == precision for layer in products)
    return Kind.ASKED if asked else Kind.OTHER
