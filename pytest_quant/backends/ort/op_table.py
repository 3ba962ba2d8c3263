"""Which operators count as compute, and in which precision they compute. Names are those of the optimized graph."""

from __future__ import annotations

from pytest_quant.backends.ort.profile import RanNode
from pytest_quant.backends.tally import Kind

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

_COMPILING = frozenset({"NvTensorRTRTXExecutionProvider", "OpenVINOExecutionProvider", "TensorrtExecutionProvider"})
"""Providers whose every node is a subgraph that they compiled."""

_FLOAT_TYPES = frozenset({"float", "float16", "double", "bfloat16"})
_IN_PRECISION = {"fp32": FLOAT_OPS, "int8": INT8_OPS, "int4": NARROW_OPS}
_ELIGIBLE = FLOAT_OPS | INT8_OPS | NARROW_OPS


def kind_of(node: RanNode, precision: str) -> Kind:
    """Tell what `node` means for the coverage of an engine of `precision`."""
    if node.op_type in _ELIGIBLE:
        if node.op_type in FLOAT_OPS and node.inputs and node.inputs[0].dtype not in _FLOAT_TYPES:
            return Kind.BESIDE
        return Kind.ASKED if node.op_type in _IN_PRECISION[precision] else Kind.OTHER
    if node.op_type in CONVERSIONS:
        return Kind.CONVERSION
    return Kind.OPAQUE if _is_opaque(node) else Kind.BESIDE


def _is_opaque(node: RanNode) -> bool:
    """A subgraph that a provider compiled carries a name of the provider's making in place of an operator's."""
    return node.op_type in _OPAQUE_OPS or node.provider in _COMPILING or "ExecutionProvider" in node.op_type
