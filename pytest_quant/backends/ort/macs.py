"""Multiply-accumulates of one executed node, from the shapes of its operands."""

from __future__ import annotations

from math import prod

from pytest_quant.backends.ort.profile import RanNode

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
    """Return the multiply-accumulates of `node`, bias and activation apart; ``None`` where shapes do not tell.

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
