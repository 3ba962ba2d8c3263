"""Graphs whose If, Loop and Scan bodies read, by name, what operators around them compute."""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray
from onnx import numpy_helper, parser

FEATURES, MIDDLE = 6, 128
"""The height and width of the input, and the values of one sample after the convolution."""

OPERATORS = {
    "add": "t = Add(p, third)",
    "batchnorm": "t = BatchNormalization(p, gamma, eight, eight, gamma)",
    "batchnorm_relu": "b = BatchNormalization(p, gamma, eight, eight, gamma)\n t = Relu(b)",
    "cast": "d = Cast<to=11>(p)\n t = Cast<to=1>(d)",
    "clip": "t = Clip(p, zero, half)",
    "concat": "t = Concat<axis=2>(p, p)",
    "dropout": "t = Dropout(p)",
    "flatten": "t = Flatten(p)",
    "gemm": "f = Flatten(p)\n t = Gemm<transB=1>(f, square, row)",
    "identity": "t = Identity(p)",
    "leaky_relu": "t = LeakyRelu(p)",
    "matmul_add": "f = Flatten(p)\n s = MatMul(f, square)\n t = Add(s, row)",
    "maxpool": "t = MaxPool<kernel_shape=[2,2]>(p)",
    "pad": "t = Pad(p, pads)",
    "relu": "t = Relu(p)",
    "reshape": "t = Reshape(p, flat)",
    "sigmoid": "t = Sigmoid(p)",
    "slice": "t = Slice(p, no, one, one)",
    "softmax": "t = Softmax<axis=1>(p)",
    "split": "t, rest = Split<axis=1, num_outputs=2>(p)",
    "squeeze": "u = Unsqueeze(p, one)\n t = Squeeze(u, one)",
    "transpose": "t = Transpose<perm=[0,2,3,1]>(p)",
}
"""What makes ``t`` of the convolution's output ``p``: what quantizers fold, fuse, rename or pass 8 bits through."""

HOLDERS = {
    "if": "z = If(yes)<then_branch = a () => (float[] z1) { z1 = Mul(READ, two) },"
    " else_branch = b () => (float[] z2) { z2 = Neg(READ) }>",
    "if_in_if": "z = If(yes)<then_branch = a () => (float[] z1) {"
    " z1 = If(yes)<then_branch = c () => (float[] z3) { z3 = Mul(READ, two) },"
    " else_branch = d () => (float[] z4) { z4 = Neg(READ) }> },"
    " else_branch = b () => (float[] z2) { z2 = Neg(READ) }>",
    "loop": "z = Loop(turns, , zero)<body = a (int64 i, bool on, float[] sum) => (bool on2, float[] sum2)"
    " { on2 = Identity(on)\n q = ReduceSumSquare<keepdims=0>(READ)\n sum2 = Add(sum, q) }>",
    "scan": "z = Scan<num_scan_inputs=1, body = a (float[128] r) => (float[] o)"
    " { q = ReduceSumSquare<keepdims=0>(READ)\n w = ReduceSumSquare<keepdims=0>(r)\n o = Add(q, w) }>(square)",
}
"""What reads a tensor by name in a body and gives ``z``."""


def captured(operator: str, holder: str, read: str) -> onnx.ModelProto:
    """Return a model x -> y, z: convolution ``p``, then `operator` ``t``, then a product; a body reads `read`."""
    text = f"""<ir_version: 8, opset_import: ["" : 18]>
    captured (float[n,3,{FEATURES},{FEATURES}] x) => (float[] y, float[] z) {{
        p = Conv<kernel_shape=[3,3]>(x, kernel, eight)
        {OPERATORS[operator]}
        rows = Flatten(t)
        y = MatMul(rows, last)
        largest = ReduceMax<keepdims=0>(x)
        yes = Greater(largest, low)
        {HOLDERS[holder].replace("READ", read)}
    }}"""
    return _filled(parser.parse_model(text), _width(operator))


def _width(operator: str) -> int:
    return {"concat": 2 * MIDDLE, "maxpool": 72, "pad": 288, "slice": 16, "split": 64}.get(operator, MIDDLE)


def _filled(model: onnx.ModelProto, width: int) -> onnx.ModelProto:
    """Give the model the constants that its text names."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> NDArray[np.float32]:
        return (0.4 * rng.normal(size=shape)).astype(np.float32)

    values: dict[str, ArrayLike] = {
        "kernel": normal(8, 3, 3, 3),
        "eight": normal(8),
        "gamma": np.abs(normal(8)) + np.float32(0.5),
        "square": normal(MIDDLE, MIDDLE),
        "row": normal(MIDDLE),
        "last": normal(width, 5),
        "low": np.float32(-100),
        "zero": np.float32(0),
        "half": np.float32(0.5),
        "third": np.float32(0.3),
        "two": np.float32(2),
        "turns": np.int64(3),
        "flat": np.array([0, -1]),
        "no": np.array([0]),
        "one": np.array([1]),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    }
    text = str(model.graph.node)
    for name, value in values.items():
        if f'input: "{name}"' in text:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return model
