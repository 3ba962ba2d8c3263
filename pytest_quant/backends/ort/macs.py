"""Compute of one run: the executed nodes from ONNX Runtime's profile, their precision and multiply-accumulates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_quant.backends.readback import Kind, convolution_macs, matrix_macs, product_kind, recurrent_macs

_SUFFIX = "_kernel_time"


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor that a node read or wrote; `dtype` as ONNX Runtime spells it, for example ``uint8``."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RanNode:
    """One execution of one node. Absent optional operands are not listed.

    Attributes
    ----------
    start_us, spent_us : by the clock of the profiler, in microseconds.
    """

    name: str
    op_type: str
    provider: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    start_us: int = 0
    spent_us: int = 0


def read_profile(file: Path) -> list[RanNode]:
    """Return the nodes in the order they ran; the body of a loop comes once for each turn."""
    return nodes_in(json.loads(file.read_text(encoding="utf-8")))


def nodes_in(events: Iterable[Mapping[str, Any]]) -> list[RanNode]:
    """Return the nodes among the events of a profile, in the order of these."""
    return [
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


def _operands(entries: list[dict[str, list[int]]]) -> tuple[Operand, ...]:
    return tuple(Operand(dtype, tuple(shape)) for entry in entries for dtype, shape in entry.items())


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
    "ConvInteger", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulInteger16",
    "MatMulIntegerToFloat", "QAttention", "QGemm", "QLinearConv", "QLinearConvTranspose", "QLinearMatMul",
    "QOrderedAttention", "QOrderedLongformerAttention", "QOrderedMatMul",
})  # fmt: skip
NARROW_OPS = frozenset({
    "MatMulBnb4", "MatMulFpQ4", "MatMulNBits", "MatMulNBitsMlp", "MatMulNBitsQLoRA", "MatMulNBitsQkv", "QMoE",
})  # fmt: skip
"""Products with packed weights of a few bits."""

_PACKED_OPS = frozenset({
    "GemmFloat8", "MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight", "MatMulPacked", "MoEPacked",
})  # fmt: skip
"""Products over short floats or blocks of them, which no precision asks for."""

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
    "MatMulFpQ4": "MatMul",
    "MatMulInteger": "MatMul",
    "MatMulInteger16": "MatMul",
    "MatMulIntegerToFloat": "MatMul",
    "MatMulNBits": "MatMul",
    "MatMulNBitsMlp": "MatMul",
    "MatMulNBitsQLoRA": "MatMul",
    "MatMulNBitsQkv": "MatMul",
    "NhwcConv": "Conv",
    "NhwcFusedConv": "Conv",
    "QAttention": "Attention",
    "QGemm": "Gemm",
    "QLinearConv": "Conv",
    "QLinearConvTranspose": "ConvTranspose",
    "QLinearMatMul": "MatMul",
    "QMoE": "MoE",
    "QOrderedAttention": "Attention",
    "QOrderedLongformerAttention": "LongformerAttention",
    "QOrderedMatMul": "MatMul",
    "TransposeMatMul": "MatMul",
}
"""The operator of the user's model that a fused or integer one stands for, as ``op_types`` spells it."""

CONVERSIONS = frozenset({"DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"})
_OPAQUE_OPS = frozenset({"BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"})
"""They run whole subgraphs inside one node."""

COMPILING = frozenset({"NvTensorRTRTXExecutionProvider", "OpenVINOExecutionProvider", "TensorrtExecutionProvider"})
"""Providers whose every node is a subgraph that they compiled."""

_QUANTIZED = {"int8": INT8_OPS, "int4": NARROW_OPS}
PRODUCT_OPS = FLOAT_OPS | INT8_OPS | NARROW_OPS | _PACKED_OPS


def kind_of(node: RanNode, precision: str) -> Kind:
    """Return how `node` counts in the coverage of an engine of `precision`."""
    if node.op_type in FLOAT_OPS:
        dtype = node.inputs[0].dtype if node.inputs else "float"
        return product_kind("float" if dtype == "double" else dtype, precision)
    if node.op_type in PRODUCT_OPS:
        return Kind.ASKED if node.op_type in _QUANTIZED.get(precision, ()) else Kind.OTHER
    if node.op_type in CONVERSIONS:
        return Kind.CONVERSION
    return Kind.OPAQUE if _is_opaque(node) else Kind.BESIDE


def _is_opaque(node: RanNode) -> bool:
    """A subgraph that a provider compiled carries a name of the provider's making in place of an operator's."""
    return node.op_type in _OPAQUE_OPS or node.provider in COMPILING or "ExecutionProvider" in node.op_type


_SEVERAL = {"MatMulNBitsMlp", "MatMulNBitsQLoRA", "MatMulNBitsQkv"}
"""Several products in one node, whose shapes do not tell them apart."""


def macs_of(node: RanNode) -> int | None:
    """Return the multiply-accumulates of `node`, bias and activation apart; ``None`` where shapes do not give them."""
    inputs = [operand.shape for operand in node.inputs]
    output = node.outputs[0].shape if node.outputs else None
    if output is None or not inputs:
        return None
    base = ONNX_OPS.get(node.op_type, node.op_type)
    weights = 3 if node.op_type.startswith("QLinear") else 1
    if base in ("Conv", "ConvTranspose") and len(inputs) > weights:
        return convolution_macs(output if base == "Conv" else inputs[0], inputs[weights])
    if base in ("Gemm", "MatMul") and node.op_type not in _SEVERAL:
        return matrix_macs(inputs[0], output)
    if base in ("GRU", "LSTM", "RNN") and len(inputs) > 2:
        return recurrent_macs(*inputs[:3])
    return _attention(inputs) if node.op_type in ("Attention", "QAttention") and len(inputs) > 1 else None


def _attention(inputs: list[tuple[int, ...]]) -> int:
    """Projections to Q, K and V, then scores and their product with V, for (batch, tokens, hidden) inputs."""
    batch, tokens, hidden = inputs[0]
    projected = inputs[1][-1]
    return batch * tokens * hidden * projected + 2 * batch * tokens * tokens * projected // 3
