"""Products of a model, by a profile of ONNX Runtime or from the file: their precision and multiply-accumulates.

The name of a packed product tells neither the bits of its weights nor what is multiplied. With an accuracy level of 4
a MatMulNBits rounds its inputs to int8, in blocks, and multiplies integers, where MLAS has such a kernel:
``MlasIsQNBitGemmAvailable``. On any other level, and with an order of its own or zero points in float, it makes floats
of the weights. ONNX Runtime makes one of a product whose weights come from a DequantizeLinear.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.onnx_files import needs_external_data
from pytest_quant.backends.onnx_files.graphs import all_graphs, constant_names, dequantizer_of
from pytest_quant.backends.onnx_files.normalize import normalize_model
from pytest_quant.backends.onnx_files.shapes import infer_shapes, known_shapes
from pytest_quant.backends.readback import Kind, Shape, convolution_macs, matrix_macs, product_kind, recurrent_macs
from pytest_quant.backends.runtime import quiet, tools_without_torch
from pytest_quant.files import temporary_folder

_SUFFIX = "_kernel_time"


Operand: TypeAlias = tuple[str, Shape]
"""Type and shape of one tensor that a node read or wrote; the type as ONNX Runtime spells it, ``uint8`` for one."""


@dataclass(frozen=True, slots=True)
class RanNode:
    """One execution of one node. Absent optional operands are not listed.

    Attributes
    ----------
    start_us, spent_us : by the clock of the profiler, in microseconds.
    within : operator of the outermost node in whose body it ran, ``If`` for one; empty outside of those.
    stored, in_integers : precision of its weights, empty where no file tells it; whether integers are multiplied.
    """

    name: str
    op_type: str
    provider: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    start_us: int = 0
    spent_us: int = 0
    within: str = ""
    stored: str = ""
    in_integers: bool = False


def nodes_in(events: Iterable[Mapping[str, Any]]) -> list[RanNode]:
    """Return the nodes among the events of a profile, in the order they began."""
    nodes = [
        RanNode(
            name=event["name"].removesuffix(_SUFFIX),
            op_type=event["args"]["op_name"],
            provider=event["args"]["provider"],
            inputs=_operands(event["args"].get("input_type_shape", [])),
            outputs=_operands(event["args"].get("output_type_shape", [])),
            start_us=event.get("ts", 0),
            spent_us=event.get("dur", 0),
        )
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith(_SUFFIX)
    ]
    nodes.sort(key=lambda node: (node.start_us, -node.spent_us))
    within, until_us = "", -1
    for place, node in enumerate(nodes):
        within = within if node.start_us < until_us else ""
        nodes[place] = replace(node, within=within)
        if not within and node.op_type in ("If", "Loop", "Scan"):
            within, until_us = node.op_type, node.start_us + node.spent_us
    return nodes


def _operands(entries: Sequence[Mapping[str, list[int]]]) -> tuple[Operand, ...]:
    return tuple((dtype, tuple(shape)) for entry in entries for dtype, shape in entry.items())


FLOAT_OPS = frozenset({
    "Attention", "AttnLSTM", "CausalConvWithState", "Conv", "ConvTranspose", "ConvTransposeWithDynamicPads",
    "DecoderAttention", "DecoderMaskedMultiHeadAttention", "DecoderMaskedSelfAttention", "DeformConv",
    "DynamicSparseAttention", "Einsum", "FusedConv", "FusedGemm", "FusedMatMul", "FusedMatMulActivation", "GRU",
    "GatedDeltaNet", "GatedRelativePositionBias", "Gemm", "GemmFastGelu", "GroupQueryAttention", "LSTM",
    "LinearAttention", "LongformerAttention", "MatMul", "MoE", "MultiHeadAttention", "NhwcConv", "NhwcFusedConv",
    "PackedAttention", "PackedMultiHeadAttention", "PagedAttention", "RNN", "RouterGateUpProj", "SparseAttention",
    "SparsePagedAttention", "SparseToDenseMatMul", "TransposeMatMul", "VarlenCausalConvWithState",
    "WordConvEmbedding",
})  # fmt: skip
INT8_OPS = frozenset({
    "ConvInteger", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat",
    "QAttention", "QGemm", "QLinearConv", "QLinearConvTranspose", "QLinearMatMul", "QOrderedAttention",
    "QOrderedLongformerAttention", "QOrderedMatMul",
})  # fmt: skip
NARROW_OPS = frozenset({
    "MatMulBnb4", "MatMulFpQ4", "MatMulNBits", "MatMulNBitsMlp", "MatMulNBitsQLoRA", "MatMulNBitsQkv", "QMoE",
})  # fmt: skip
"""Products with packed weights of a few bits, eight perhaps; the file says how many, and what is multiplied."""

_PACKED_OPS = frozenset({
    "GemmFloat8", "MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight", "MatMulInteger16", "MatMulPacked",
    "MoEPacked",
})  # fmt: skip
"""Products over short floats, blocks of them, or 16-bit integers, which no precision asks for."""

_FORMS = {
    "Attention": ("QAttention", "QOrderedAttention"),
    "Conv": ("ConvInteger", "FusedConv", "NhwcConv", "NhwcFusedConv", "QLinearConv"),
    "ConvTranspose": ("QLinearConvTranspose",),
    "Gemm": ("FusedGemm", "QGemm"),
    "LSTM": ("DynamicQuantizeLSTM",),
    "LongformerAttention": ("QOrderedLongformerAttention",),
    "MatMul": (
        *("DynamicQuantizeMatMul", "FusedMatMul", "FusedMatMulActivation", "GemmFastGelu", "TransposeMatMul"),
        *("MatMulBnb4", "MatMulFpQ4", "MatMulNBits", "MatMulNBitsMlp", "MatMulNBitsQLoRA", "MatMulNBitsQkv"),
        *("MatMulInteger", "MatMulInteger16", "MatMulIntegerToFloat", "QLinearMatMul", "QOrderedMatMul"),
    ),
    "MoE": ("QMoE",),
}
ONNX_OPS = {form: operator for operator, forms in _FORMS.items() for form in forms}
"""The operator of the user's model that a fused or integer one stands for, as ``op_types`` spells it."""

CONVERSIONS = frozenset({"DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"})
_OPAQUE_OPS = frozenset({"BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"})
"""They run whole subgraphs inside one node."""

COMPILING = frozenset({"NvTensorRTRTXExecutionProvider", "OpenVINOExecutionProvider", "TensorrtExecutionProvider"})
"""Providers whose every node is a subgraph that they compiled."""

PRODUCT_OPS = FLOAT_OPS | INT8_OPS | NARROW_OPS | _PACKED_OPS


def kind_of(node: RanNode, precision: str) -> Kind:
    """Return how `node` counts in the coverage of an engine of `precision`."""
    if node.op_type in FLOAT_OPS:
        dtype = node.inputs[0][0] if node.inputs else "float"
        return product_kind("float" if dtype == "double" else dtype, precision)
    if node.op_type in PRODUCT_OPS:
        quantized = {"int8": INT8_OPS, "int4": NARROW_OPS}.get(precision, ())
        is_asked = node.op_type in quantized and node.stored in ("", precision)
        return Kind.ASKED if is_asked or (node.in_integers and precision == "int8") else Kind.OTHER
    if node.op_type in CONVERSIONS:
        return Kind.CONVERSION
    # A subgraph that a provider compiled carries a name of the provider's making in place of an operator's.
    is_compiled = node.provider in COMPILING or "ExecutionProvider" in node.op_type
    return Kind.OPAQUE if is_compiled or node.op_type in _OPAQUE_OPS else Kind.BESIDE


def multiplies_bytes(node: RanNode) -> bool:
    """Tell whether `node` ran in int8, whatever was asked for."""
    return kind_of(node, "int8") is Kind.ASKED


FUSED = "fused "
"""How ONNX Runtime begins the name of a product that took in an activation."""


def mark_weights(run: Sequence[RanNode], weights: Mapping[str, tuple[str, bool]]) -> list[RanNode]:
    """Return the nodes that ran with what is known of their `weights`, see `weights_in`."""
    known = (weights.get(node.name.removeprefix(FUSED), ("", False)) for node in run)
    return [
        replace(node, stored=stored, in_integers=in_integers and node.provider == "CPUExecutionProvider")
        for node, (stored, in_integers) in zip(run, known, strict=True)
    ]


def weights_in(model: onnx.ModelProto, run: Sequence[RanNode]) -> dict[str, tuple[str, bool]]:
    """Return `stored` and `in_integers` of packed products and of those with weights behind a DequantizeLinear.

    Parameters
    ----------
    model : the optimized one, in which products may be packed that the file has not.
    run : its nodes, whose names are the keys.
    """
    graphs, word = list(all_graphs(model.graph)), onnx.TensorProto.DataType.Name
    types = {tensor.name: word(tensor.data_type).lower() for graph in graphs for tensor in graph.initializer}
    makers = {name: node for graph in graphs for node in graph.node for name in node.output}
    packed = [node for node in makers.values() if node.op_type in NARROW_OPS]
    found = {name: _packed(node, types) for name, node in zip(names_in_profile(packed, run), packed, strict=True)}
    for node in makers.values():
        sources = [dequantizer_of(name, makers) for name in node.input[:2] if node.op_type in FLOAT_OPS]
        for held in (source.input[0] for source in sources if source is not None and source.input[0] in types):
            found[node.name] = (types[held].removeprefix("u"), False)
    return found


def _packed(node: onnx.NodeProto, types: Mapping[str, str]) -> tuple[str, bool]:
    settings = {"bits": 4} | {attribute.name: attribute.i for attribute in node.attribute}
    stored = "int8" if settings.get("expert_weight_bits", settings["bits"]) == 8 else "int4"
    zero_point, order = (*node.input[3:5], "", "")[:2]
    is_plain = node.op_type == "MatMulNBits" and not order and types.get(zero_point, "uint8") == "uint8"
    has_kernel = settings["bits"] in (4, 8) and settings.get("block_size") in (16, 32, 64, 128, 256)
    return stored, is_plain and has_kernel and settings.get("accuracy_level") == 4


def names_in_profile(nodes: Sequence[onnx.NodeProto], run: Sequence[RanNode]) -> list[str]:
    """Return the name that each of `nodes`, in the graph's order, has in the profile; empty if that is not clear.

    The profiler calls a node without a name by its operator and a number that no file holds: ``Conv_12``. Those of one
    operator come in the order of the graph.
    """
    named = {node.name for node in nodes}
    nameless: dict[str, list[str]] = defaultdict(list)
    for ran in run:
        if ran.name not in named and ran.name not in nameless[ran.op_type]:
            nameless[ran.op_type].append(ran.name)
    for op, names in nameless.items():
        if len(names) != sum(not node.name and node.op_type == op for node in nodes):
            names.clear()
    return [node.name or (nameless[node.op_type].pop(0) if nameless[node.op_type] else "") for node in nodes]


def macs_of(node: RanNode) -> int | None:
    """Return the multiply-accumulates of `node`, without bias and activation; ``None`` if shapes do not give them."""
    inputs = [shape for _, shape in node.inputs]
    output = node.outputs[0][1] if node.outputs else None
    if output is None or not inputs:
        return None
    base = ONNX_OPS.get(node.op_type, node.op_type)
    weights = 3 if node.op_type.startswith("QLinear") else 1
    if base in ("Conv", "ConvTranspose") and len(inputs) > weights:
        return convolution_macs(output if base == "Conv" else inputs[0], inputs[weights])
    # Shapes do not tell several products in one node apart.
    several = ("MatMulNBitsMlp", "MatMulNBitsQLoRA", "MatMulNBitsQkv")
    if base in ("Gemm", "MatMul") and node.op_type not in several:
        return matrix_macs(inputs[0], output)
    if base in ("GRU", "LSTM", "RNN") and len(inputs) > 2:
        return recurrent_macs(*inputs[:3])
    if node.op_type in ("Attention", "QAttention") and len(inputs) > 1:
        # Projections to Q, K and V, then scores and their product with V.
        (batch, tokens, hidden), projected = inputs[0], inputs[1][-1]
        return batch * tokens * hidden * projected + 2 * batch * tokens * tokens * projected // 3
    return None


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
    model = normalize_model(onnx.load(path, load_external_data=False))
    shapes: dict[str, Shape] = {}
    # Shape inference hands the model over as one message of protobuf.
    if not needs_external_data(path):
        given = {name: np.shape(array) for name, array in feeds.items()}
        shapes = known_shapes(infer_shapes(model, given).graph)
    if shapes and any(_macs(node, shapes) is None for node in model.graph.node if node.op_type in FLOAT_OPS):
        shapes = {**_follow_shapes(model), **shapes}
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
    constants = constant_names(graph)
    biases = {}
    for node in graph.node:
        if node.op_type == "Add" and len(constants.intersection(node.input)) == 1:
            (added_to,) = set(node.input) - constants
            biases[added_to] = (node.name, node.output[0])
    return biases


def _follow_shapes(model: onnx.ModelProto) -> dict[str, Shape]:
    """Infer shapes by ONNX Runtime's tool, which computes with sizes as a network does; nothing if it gives up.

    Inputs of `model` have numbers for sizes. It takes longer, and knows fewer operators.
    """
    with temporary_folder() as folder, chdir(folder), tools_without_torch(), quiet():
        from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

        try:
            return known_shapes(SymbolicShapeInference.infer_shapes(model, auto_merge=True).graph)
        except Exception:
            # It raises bare Exception, and drops the model into the current folder. Sizes then stay unknown.
            return {}


def _macs(node: onnx.NodeProto, shapes: dict[str, Shape]) -> int | None:
    names = [name for name in node.input if name]
    if not all(name in shapes for name in (*names, node.output[0])):
        return None
    inputs = tuple(("float", shapes[name]) for name in names)
    return macs_of(RanNode(node.name, node.op_type, "", inputs, (("float", shapes[node.output[0]]),)))
