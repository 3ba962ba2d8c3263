"""Bodies of If, Loop and Scan get the values they read, whatever the quantizer does around them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import ArrayLike, NDArray
from onnx import numpy_helper, parser

from pytest_quant.backends import Feeds
from pytest_quant.backends.onnx_files.graphs import all_nodes
from pytest_quant.spec import Model
from pytest_quant.testing.conformance.examples import sqnr_db
from tests.integration.ort_traps.bench import engine_file, engine_of, quantized, spec_of

FEATURES, MIDDLE = 6, 128
"""The height and width of the input, and the values of one sample after the convolution."""

OPERATORS = {
    "batchnorm_relu": "b = BatchNormalization(p, gamma, eight, eight, gamma)\n t = Relu(b)",
    "clip": "t = Clip(p, zero, half)",
    "flatten": "t = Flatten(p)",
    "gemm": "f = Flatten(p)\n t = Gemm<transB=1>(f, square, row)",
    "identity": "t = Identity(p)",
    "matmul_add": "f = Flatten(p)\n s = MatMul(f, square)\n t = Add(s, row)",
    "maxpool": "t = MaxPool<kernel_shape=[2,2]>(p)",
    "relu": "t = Relu(p)",
    "reshape": "t = Reshape(p, flat)",
    "split": "t, rest = Split<axis=1, num_outputs=2>(p)",
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
    return {"maxpool": 72, "split": 64}.get(operator, MIDDLE)


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
        "two": np.float32(2),
        "turns": np.int64(3),
        "flat": np.array([0, -1]),
    }
    text = str(model.graph.node)
    for name, value in values.items():
        if f'input: "{name}"' in text:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return model


EIGHT_BITS_DB, FOUR_BITS_DB = 24.0, 10.0
"""Uniform noise of step^2 / 12 over a range of 8 times the rms is 41 dB below the signal at 255 steps and 16 dB at 15.

Input, weight and output are rounded one after another, and a sum of few products averages little: 17 and 6 dB are left
for that. Values that were not clamped, or that are another tensor's, are 5 dB away or less.
"""
SCHEMES: dict[str, tuple[str, dict[str, Any]]] = {
    "static": ("static", {}),
    "static-all": ("static", {"op_types": "all"}),
    "dynamic-all": ("dynamic", {"op_types": "all"}),
    "dynamic-main": ("dynamic", {"op_types": "all", "extra": {"EnableSubgraph": False}}),
    "int4": ("weight-only", {}),
}


def _feeds(seed: int, n: int = 16) -> Feeds:
    return {"x": np.random.default_rng(seed).normal(size=(n, 3, FEATURES, FEATURES)).astype(np.float32)}


def _saved(model: onnx.ModelProto, folder: Path) -> Model:
    onnx.save_model(model, folder / "captured.onnx")
    return Model.from_onnx(folder / "captured.onnx")


def _check(proto: onnx.ModelProto, scheme: str, folder: Path, feeds: Feeds) -> None:
    """Compare every output with the float engine's, on a batch that the ranges are from."""
    name, options = SCHEMES[scheme]
    model = _saved(proto, folder)
    with engine_of(spec_of(model, None), lambda: iter(())) as engine:
        wanted = engine.run(feeds)
    with engine_of(spec_of(model, name, **options), lambda: iter([feeds])) as engine:
        result = engine.run(feeds)
    for output, values in wanted.items():
        bound = FOUR_BITS_DB if scheme == "int4" else EIGHT_BITS_DB
        assert sqnr_db({output: values}, {output: result[output]}) > bound, output


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_body_reads_the_output_of_an_operator(operator: str, scheme: str, tmp_path: Path) -> None:
    """Folded, fused, renamed or passed through: what it computes is what the body gets."""
    _check(captured(operator, "if", "t"), scheme, tmp_path, _feeds(1))


@pytest.mark.parametrize("scheme", ["static", "dynamic-all"])
@pytest.mark.parametrize("operator", ["relu", "clip", "batchnorm_relu", "reshape"])
def test_a_body_reads_the_input_of_an_operator(operator: str, scheme: str, tmp_path: Path) -> None:
    """A node whose only other reader is folded into it keeps the output that the body names."""
    _check(captured(operator, "if", "p"), scheme, tmp_path, _feeds(1))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("holder", sorted(HOLDERS.keys() - {"if"}))
@pytest.mark.parametrize("operator", ["relu", "clip"])
def test_bodies_of_every_kind(operator: str, holder: str, scheme: str, tmp_path: Path) -> None:
    """A Loop, a Scan and a body in a body read as an If does."""
    _check(captured(operator, holder, "t"), scheme, tmp_path, _feeds(1))


def test_the_rest_stays_quantized(tmp_path: Path) -> None:
    """A convolution whose output a body reads too runs in int8, and so does the product behind it."""
    model = _saved(captured("relu", "if", "t"), tmp_path)
    with engine_of(spec_of(model, "static"), lambda: iter([_feeds(1)])) as engine:
        assert engine.coverage(_feeds(2)).pct == 100.0


def _dense(text: str, **weights: tuple[int, ...]) -> onnx.ModelProto:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}')
    rng = np.random.default_rng(0)
    for name, shape in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name))
    for nodes in (model.graph.node, *(b.g.node for n in model.graph.node for b in n.attribute if b.HasField("g"))):
        for node in nodes:
            node.name = node.output[0]
    return model


_BODY_READS_WEIGHTS = """g (float[n,8] x, bool on) => (float[n,8] y, float[n,8] z) {
    y = Gemm<transB=1>(x, w, b)
    z = If(on)<then_branch = a () => (float[n,8] z1) { z1 = Gemm<transB=1>(x, w, b) },
               else_branch = c () => (float[n,8] z2) { u = MatMul(x, w)\n z2 = Add(u, b) }>
}"""


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("bias", [(8,), (1, 8)])
@pytest.mark.parametrize("scheme", ["static", "dynamic-all", "dynamic-main", "int4"])
def test_a_body_reads_weights_of_the_graph(scheme: str, bias: tuple[int, ...], on: bool, tmp_path: Path) -> None:
    """The graph's own Gemm may lose its bias to the quantizer and have its weight transposed; the body keeps both."""
    feeds = {"x": np.random.default_rng(3).normal(size=(64, 8)).astype(np.float32), "on": np.array(on)}
    _check(_dense(_BODY_READS_WEIGHTS, w=(8, 8), b=bias), scheme, tmp_path, feeds)


@pytest.mark.parametrize("scheme", ["static", "dynamic-all", "int4"])
def test_two_layers_share_a_transposed_weight(scheme: str, tmp_path: Path) -> None:
    """Tied weights: each Gemm is turned into a MatMul by itself, and the second is not turned back."""
    text = """g (float[n,8] x) => (float[n,8] y, float[n,8] z, float[n,8] v) {
        y = Gemm<transB=1>(x, w)\n z = Gemm<transB=1>(y, w)\n v = MatMul(x, w) }"""
    feeds = {"x": np.random.default_rng(3).normal(size=(64, 8)).astype(np.float32)}
    _check(_dense(text, w=(8, 8)), scheme, tmp_path, feeds)


_PRODUCT_IN_A_BODY = """g (float[n,8] x, bool on) => (float[n,8] y, float[n,8] z) {
    y = MatMul(x, w)
    z = If(on)<then_branch = a () => (float[n,8] z1) { inner = Gemm<transB=1>(y, v, b)\n z1 = MatMul(inner, w) },
               else_branch = c () => (float[n,8] z2) { z2 = Neg(y) }>
}"""


@pytest.mark.parametrize("scheme", ["static", "static-all", "dynamic-all", "dynamic-main", "int4"])
def test_exclude_reaches_into_bodies(scheme: str, tmp_path: Path) -> None:
    """A node of a body may be named, and is float afterwards; a neighbour is as quantized as it was before."""
    name, options = SCHEMES[scheme]
    proto = _dense(_PRODUCT_IN_A_BODY, w=(8, 8), v=(8, 8), b=(8,))
    feeds = {"x": np.random.default_rng(3).normal(size=(64, 8)).astype(np.float32), "on": np.array(True)}
    model = _saved(proto, tmp_path)
    kinds = {}
    for exclude in ((), ("inner",), ("y",)):
        spec = spec_of(model, name, exclude=exclude, **options)
        folder = quantized(spec, lambda: iter([feeds]), tmp_path / "-".join((scheme, *exclude)))
        nodes = list(all_nodes(onnx.load(engine_file(folder))))
        kinds[exclude] = sum(node.op_type in ("MatMulInteger", "MatMulNBits") for node in nodes)
        floats = {node.name for node in nodes if node.op_type in ("MatMul", "Gemm")}
        assert not exclude or floats & {exclude[0], f"{exclude[0]}_MatMul"}
    bodies_too = scheme in ("dynamic-all", "int4")
    assert kinds[()] == {"static": 0, "static-all": 0, "dynamic-main": 1}.get(scheme, 3)
    assert kinds[("inner",)] == kinds[()] - bodies_too
    assert kinds[("y",)] == max(0, kinds[()] - 1)


_FUNCTION = """g (float[n,8] x) => (float[n,8] z) { y = my.layer(x)\n z = my.layer(y) }
<domain: "my", opset_import: ["" : 18]> layer (x) => (y) {
    w = Constant<value = float[8,8] {VALUES}>()\n m = MatMul(x, w)\n y = Relu(m) }"""


@pytest.mark.parametrize(("exclude", "quantized_nodes"), [((), 2), (("z",), 1), (("product",), 0)])
def test_exclude_reaches_into_functions(exclude: tuple[str, ...], quantized_nodes: int, tmp_path: Path) -> None:
    """A call may be named, or a node of the function; then it is float in every call."""
    values = ", ".join(str(value) for value in np.random.default_rng(0).normal(size=64))
    proto = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18, "my" : 1]> {_FUNCTION.replace("VALUES", values)}'
    )
    for node in proto.graph.node:
        node.name = node.output[0]
    proto.functions[0].node[1].name = "product"
    spec = spec_of(_saved(proto, tmp_path), "dynamic", exclude=exclude)
    folder = quantized(spec, lambda: iter(()), tmp_path / "engine")
    kinds = [node.op_type for node in all_nodes(onnx.load(engine_file(folder)))]
    assert kinds.count("MatMulInteger") == quantized_nodes
