"""Compute of one run: the executed nodes from ONNX Runtime's profile, their precision and multiply-accumulates."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import shape_inference

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.coverage import Kind
from pytest_quant.backends.onnx_files import normalized, size_bytes

_SUFFIX = "_kernel_time"


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor that a node read or wrote; `dtype` as ONNX Runtime spells it, for example ``uint8``."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RanNode:
    """One execution of one node. Absent optional operands are not listed."""

    name: str
    op_type: str
    provider: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]


def read_profile(file: Path) -> list[RanNode]:
    """Return the nodes in the order they ran; the body of a loop comes once for each turn."""
    events = json.loads(file.read_text(encoding="utf-8"))
    return [
        RanNode(
            name=event["name"].removesuffix(_SUFFIX),
            op_type=event["args"]["op_name"],
            provider=event["args"]["provider"],
            inputs=_operands(event["args"].get("input_type_shape", [])),
            outputs=_operands(event["args"].get("output_type_shape", [])),
        )
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith(_SUFFIX)
    ]


def _operands(entries: list[dict[str, list[int]]]) -> tuple[Operand, ...]:
    return tuple(Operand(dtype, tuple(shape)) for entry in entries for dtype, shape in entry.items())


FLOAT_OPS = frozenset(
    {
        "Attention",
        "Conv",
        "ConvTranspose",
        "DecoderMaskedMultiHeadAttention",
        "DeformConv",
        "Einsum",
        "FusedConv",
        "FusedGemm",
        "FusedMatMul",
        "FusedMatMulActivation",
        "GRU",
        "Gemm",
        "GemmFastGelu",
        "GroupQueryAttention",
        "LSTM",
        "MatMul",
        "MoE",
        "MultiHeadAttention",
        "NhwcFusedConv",
        "PackedAttention",
        "PackedMultiHeadAttention",
        "RNN",
        "SparseAttention",
        "TransposeMatMul",
    }
)
INT8_OPS = frozenset(
    {
        "ConvInteger",
        "DynamicQuantizeLSTM",
        "DynamicQuantizeMatMul",
        "MatMulInteger",
        "MatMulInteger16",
        "MatMulIntegerToFloat",
        "QAttention",
        "QGemm",
        "QLinearConv",
        "QLinearConvTranspose",
        "QLinearMatMul",
    }
)
NARROW_OPS = frozenset({"MatMulBnb4", "MatMulNBits", "QMoE"})
"""Products with packed weights of a few bits."""

ONNX_OPS = {
    "ConvInteger": "Conv",
    "DynamicQuantizeLSTM": "LSTM",
    "DynamicQuantizeMatMul": "MatMul",
    "FusedConv": "Conv",
    "FusedGemm": "Gemm",
    "FusedMatMul": "MatMul",
    "FusedMatMulActivation": "MatMul",
    "GemmFastGelu": "MatMul",
    "MatMulBnb4": "MatMul",
    "MatMulInteger": "MatMul",
    "MatMulInteger16": "MatMul",
    "MatMulIntegerToFloat": "MatMul",
    "MatMulNBits": "MatMul",
    "NhwcFusedConv": "Conv",
    "QAttention": "Attention",
    "QGemm": "Gemm",
    "QLinearConv": "Conv",
    "QLinearConvTranspose": "ConvTranspose",
    "QLinearMatMul": "MatMul",
    "QMoE": "MoE",
    "TransposeMatMul": "MatMul",
}
"""The operator of the user's model that a fused or integer one stands for, as ``op_types`` spells it."""

CONVERSIONS = frozenset({"DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"})
_OPAQUE_OPS = frozenset({"BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"})
"""They run whole subgraphs inside one node."""

COMPILING = frozenset({"NvTensorRTRTXExecutionProvider", "OpenVINOExecutionProvider", "TensorrtExecutionProvider"})
"""Providers whose every node is a subgraph that they compiled."""

_FLOAT_TYPES = frozenset({"float", "float16", "double", "bfloat16"})
_IN_PRECISION = {"fp32": FLOAT_OPS, "int8": INT8_OPS, "int4": NARROW_OPS}
_ELIGIBLE = FLOAT_OPS | INT8_OPS | NARROW_OPS


def kind_of(node: RanNode, precision: str) -> Kind:
    """Return how `node` counts in the coverage of an engine of `precision`."""
    if node.op_type in _ELIGIBLE:
        if node.op_type in FLOAT_OPS and node.inputs and node.inputs[0].dtype not in _FLOAT_TYPES:
            return Kind.BESIDE
        return Kind.ASKED if node.op_type in _IN_PRECISION[precision] else Kind.OTHER
    if node.op_type in CONVERSIONS:
        return Kind.CONVERSION
    return Kind.OPAQUE if _is_opaque(node) else Kind.BESIDE


def _is_opaque(node: RanNode) -> bool:
    """A subgraph that a provider compiled carries a name of the provider's making in place of an operator's."""
    return node.op_type in _OPAQUE_OPS or node.provider in COMPILING or "ExecutionProvider" in node.op_type


_INFERRED_BYTES = 1_500_000_000
"""Shape inference hands the model over as one protobuf message, which ends at 2 GB."""


@dataclass(frozen=True, slots=True)
class Product:
    """A node that multiplies and accumulates.

    Attributes
    ----------
    aliases : names of its outputs, and name and output of the bias that is added to it.
    macs : its multiply-accumulates; ``None`` where they do not follow from its shapes.
    reads_levels : one of its operands comes from a DequantizeLinear, so it may run in integers.
    """

    name: str
    aliases: tuple[str, ...]
    macs: int | None
    reads_levels: bool = False

    def is_called(self, kernel: str) -> bool:
        """Tell whether a kernel of that name is this node: OpenVINO takes one of its names, or appends to it."""
        return any(kernel == name or kernel.startswith(f"{name}/") for name in (self.name, *self.aliases) if name)


def find_products(path: Path, feeds: Feeds) -> list[Product]:
    """Return the products of the model in `path` when it runs over `feeds`."""
    model = normalized(onnx.load(path, load_external_data=False))
    shapes = _shapes(model, feeds) if size_bytes(path) < _INFERRED_BYTES else {}
    biases = _biases(model.graph)
    levels = {name for node in model.graph.node if node.op_type == "DequantizeLinear" for name in node.output}
    return [
        Product(
            node.name,
            (*node.output, *biases.get(node.output[0], ())),
            _macs(node, shapes),
            reads_levels=not levels.isdisjoint(node.input),
        )
        for node in model.graph.node
        if node.op_type in FLOAT_OPS
    ]


def _biases(graph: onnx.GraphProto) -> dict[str, tuple[str, str]]:
    """Return name and output of each addition of a constant, by what it is added to."""
    constants = {tensor.name for tensor in graph.initializer}
    found = {}
    for node in graph.node:
        if node.op_type == "Add" and len(constants.intersection(node.input)) == 1:
            (added_to,) = set(node.input) - constants
            found[added_to] = (node.name, node.output[0])
    return found


def _shapes(model: onnx.ModelProto, feeds: Feeds) -> dict[str, tuple[int, ...]]:
    """Infer all shapes from those of `feeds`; the shapes written in the file may have free axes."""
    for value in model.graph.input:
        if value.name in feeds:
            sizes = [onnx.TensorShapeProto.Dimension(dim_value=size) for size in np.shape(feeds[value.name])]
            value.type.tensor_type.shape.CopyFrom(onnx.TensorShapeProto(dim=sizes))
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    graph = shape_inference.infer_shapes(model, data_prop=True).graph
    found = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        sizes = value.type.tensor_type.shape.dim
        if value.type.tensor_type.HasField("shape") and all(size.HasField("dim_value") for size in sizes):
            found.setdefault(value.name, tuple(size.dim_value for size in sizes))
    return found


def _macs(node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]]) -> int | None:
    names = [name for name in node.input if name]
    if not all(name in shapes for name in (*names, node.output[0])):
        return None
    inputs = tuple(Operand("float", shapes[name]) for name in names)
    return macs_of(RanNode(node.name, node.op_type, "", inputs, (Operand("float", shapes[node.output[0]]),)))


_CONVOLUTIONS = {"Conv": 1, "FusedConv": 1, "NhwcFusedConv": 1, "ConvInteger": 1, "QLinearConv": 3}
_TRANSPOSED = {"ConvTranspose": 1, "QLinearConvTranspose": 3}
_ATTENTIONS = {"Attention": 1, "QAttention": 1}
_RECURRENT = {"LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"}
"""Values are the position of the weights among the inputs."""

_GEMMS = {"Gemm", "FusedGemm", "QGemm"}
_TRANSPOSING = {"FusedMatMul", "FusedMatMulActivation", "TransposeMatMul"}
_PRODUCTS = {
    "MatMul",
    "QLinearMatMul",
    "MatMulInteger",
    "MatMulInteger16",
    "MatMulIntegerToFloat",
    "DynamicQuantizeMatMul",
    "MatMulNBits",
    "MatMulBnb4",
}


def macs_of(node: RanNode) -> int | None:
    """Return the multiply-accumulates of `node`, bias and activation apart; ``None`` where shapes do not give them.

    Convolution: each output element takes one product for each weight of its channel. Transposed convolution: each
    input element does. Matrix product: each output element takes K of them.
    """
    inputs = [operand.shape for operand in node.inputs]
    output = node.outputs[0].shape if node.outputs else None
    if output is None or not inputs:
        return None
    kind = node.op_type
    if kind in _CONVOLUTIONS:
        return _weighted(output, inputs, _CONVOLUTIONS[kind])
    if kind in _TRANSPOSED:
        return _weighted(inputs[0], inputs, _TRANSPOSED[kind])
    if kind in _GEMMS:
        return prod(inputs[0]) * output[-1]
    if kind in _PRODUCTS:
        return prod(output) * inputs[0][-1]
    if kind in _TRANSPOSING and len(output) > 1:
        return prod(output) * prod(inputs[0][-2:]) // max(1, output[-2])
    if kind in _RECURRENT and len(inputs) > 2:
        return prod(inputs[0][:2]) * (prod(inputs[1]) + prod(inputs[2]))
    return _attention(inputs) if kind in _ATTENTIONS and len(inputs) > 1 else None


def _weighted(elements: tuple[int, ...], inputs: list[tuple[int, ...]], position: int) -> int | None:
    """`elements` times the weights that belong to one channel of them, axis 0 of the weights."""
    return prod(elements) * prod(inputs[position][1:]) if len(inputs) > position else None


def _attention(inputs: list[tuple[int, ...]]) -> int:
    """Projections to Q, K and V, then scores and their product with V, for (batch, tokens, hidden) inputs."""
    batch, tokens, hidden = inputs[0]
    projected = inputs[1][-1]
    return batch * tokens * hidden * projected + 2 * batch * tokens * tokens * projected // 3
