"""Files that are odd, old or broken end in figures, or in an error of ours that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from pytest_quant.backends import get_backend
from pytest_quant.errors import QuantError
from pytest_quant.spec import EngineSpec, Model
from tests.support.measuring import numbers

_X = {"x": numbers(24, 8)}
_PRODUCT = "(float[n, 8] x) => (float[n, 4] y)"


def _in_type(kind: int) -> str:
    """A product that is computed in another type."""
    return f"""{_PRODUCT} {{ d = Cast<to = {kind}>(x) w = Cast<to = {kind}>(W)
        p = MatMul(d, w) y = Cast<to = 1>(p) }}"""


TEXTS: dict[str, str] = {
    "a branch": f"""{_PRODUCT} {{ m = ReduceMean<keepdims = 0>(x) zero = Constant<value_float = 0.0>()
        on = Greater(m, zero) y = If(on) <then_branch = t () => (float[n, 4] p) {{ p = MatMul(x, W) }},
        else_branch = e () => (float[n, 4] q) {{ h = MatMul(x, W) q = Neg(h) }}> }}""",
    "a loop": f"""{_PRODUCT} {{ three = Constant<value_int = 3>() yes = Constant<value_int = 1>()
        on = Cast<to = 9>(yes) h = MatMul(x, W) y = Loop(three, on, h) <body = turn
        (int64 i, bool c, float[n, 4] s) => (bool d, float[n, 4] r) {{ d = Identity(c) r = MatMul(s, V) }}> }}""",
    "a scan": f"""{_PRODUCT} {{ h = MatMul(x, W) start = ReduceMax<axes = [0], keepdims = 0>(h)
        end, y = Scan<num_scan_inputs = 1, body = turn (float[4] s, float[4] a) => (float[4] r, float[4] b)
        {{ r = Add(s, a) b = Identity(r) }}>(start, h) }}""",
    "no product": "(float[n, 8] x) => (float[n, 8] y) { y = Relu(x) }",
    "an input that is an output": "(float[n, 8] x) => (float[n, 4] y, float[n, 8] x) { [m] y = MatMul(x, W) }",
    "a constant that is an output": "(float[n, 8] x) => (float[n, 4] y, float[8, 4] W) { [m] y = MatMul(x, W) }",
    "a product of doubles": _in_type(11),
    "a product of bfloat16": _in_type(16),
    "a product of integers": _in_type(6),
    "einsum": '(float[n, 8] x) => (float[n, 4] y) { [e] y = Einsum<equation = "ab,bc->ac">(x, W) }',
    "a sequence between nodes": f"""{_PRODUCT} {{ both = SequenceConstruct(x, x) zero = Constant<value_int = 0>()
        a = SequenceAt(both, zero) y = MatMul(a, W) }}""",
    "a sequence as output": "(float[n, 8] x) => (seq(float[n, 8]) y) { y = SequenceConstruct(x, x) }",
    "weights without a channel": f"{_PRODUCT} {{ h = MatMul(x, none) z = Concat<axis = 1>(x, h) y = MatMul(z, W) }}",
    "an absent optional input": f"{_PRODUCT} {{ c = Clip(x, , high) y = MatMul(c, W) }}",
    "a bias that is absent": f"{_PRODUCT} {{ y = Gemm(x, W, ) }}",
    "one weight three times": """(float[n, 8] x) => (float[n, 8] y) {
        h = Gemm(x, S, s) g = Gemm<transB = 1>(h, S, s) y = MatMul(g, S) }""",
    "a resized picture": """(float[n, 8] x) => (float[n, 1, 4, 8] y) <int64[4] shape = {-1, 1, 2, 4}> {
        p = Reshape(x, shape) y = Resize<mode = "linear">(p, , scales) }""",
    "a custom operator": f"{_PRODUCT} {{ h = MatMul(x, W) y = own.ops.Gate(h) }}",
    "strings beside": """(float[n, 8] x) => (float[n, 4] y, string[1] t) {
        y = MatMul(x, W) t = Constant<value_strings = ["a"]>() }""",
    "numbers that are not finite": f"{_PRODUCT} {{ y = MatMul(x, holes) }}",
}
_CONSTANTS: dict[str, NDArray[Any]] = {
    "W": numbers(8, 4),
    "V": numbers(4, 4),
    "S": numbers(8, 8),
    "s": numbers(8),
    "none": np.zeros((8, 0), np.float32),
    "high": np.array(1, np.float32),
    "scales": np.array([1, 1, 2, 2], np.float32),
    "holes": np.full((8, 4), np.nan, np.float32),
}


def _parsed(text: str, opset: int = 17) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "own.ops": 1]> g {text}')
    used = {name for name in _CONSTANTS if any(f"{before}{name}{after}" in text for before in " (" for after in ",) ")}
    model.graph.initializer.extend(numpy_helper.from_array(_CONSTANTS[name], name) for name in sorted(used))
    return model


def _sparse() -> onnx.ModelProto:
    model = _parsed(f"{_PRODUCT} {{ y = MatMul(x, thin) }}")
    values = numpy_helper.from_array(np.ones(2, np.float32), "thin")
    places = numpy_helper.from_array(np.array([0, 31], np.int64), "places")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [8, 4]))
    return model


def _of_type(kind: int) -> onnx.ModelProto:
    """Weights of few bits or short floats behind a DequantizeLinear."""
    model = _parsed(f"{_PRODUCT} {{ w = DequantizeLinear(q, scale) y = MatMul(x, w) }}", 21)
    model.ir_version = 10
    model.graph.initializer.append(helper.make_tensor("q", kind, [8, 4], [1.0] * 32))
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.1, np.float32), "scale"))
    return model


def _old() -> onnx.ModelProto:
    """Opset 6: a Gemm that says that its bias is broadcast, and constants among the inputs."""
    model = _parsed(f"{_PRODUCT} {{ y = Gemm<broadcast = 1, alpha = 0.5>(x, W, four) }}", 6)
    model.ir_version = 3
    model.graph.initializer.append(numpy_helper.from_array(numbers(4), "four"))
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return model


def _with_lost_weights() -> onnx.ModelProto:
    model = _parsed(f"{_PRODUCT} {{ y = MatMul(x, W) }}")
    (tensor,) = model.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="lost.bin")
    return model


def _with_wrong_shape() -> onnx.ModelProto:
    model = _parsed(f"{_PRODUCT} {{ y = MatMul(x, W) }}")
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(numbers(7, 4), "W"))
    return model


FILES: dict[str, Callable[[], onnx.ModelProto]] = {
    **{name: lambda text=text: _parsed(text) for name, text in TEXTS.items()},  # type: ignore[misc]
    "sparse weights": _sparse,
    "weights of int4": lambda: _of_type(TensorProto.INT4),
    "weights of uint4": lambda: _of_type(TensorProto.UINT4),
    "weights of float8": lambda: _of_type(TensorProto.FLOAT8E4M3FN),
    "an old opset": _old,
    "weights that are lost": _with_lost_weights,
    "weights of a wrong shape": _with_wrong_shape,
}


@pytest.mark.parametrize("backend", ["ort", "openvino"])
@pytest.mark.parametrize("name", FILES)
def test_figures_or_a_next_step(tmp_path: Path, backend: str, name: str) -> None:
    """Whether it is quantized, or opened as it arrived."""
    if backend == "openvino":
        pytest.importorskip("nncf")
    path, runtime = tmp_path / "odd.onnx", get_backend(backend)
    path.write_bytes(FILES[name]().SerializeToString())
    model = Model.from_onnx(path)
    arrived = name.startswith("weights of")
    spec = EngineSpec(backend, "int8", "given" if arrived else "static", model, model if arrived else None)
    for folder in ("ranges", "engine"):
        (tmp_path / folder).mkdir()
    next_step: str | None = "none is needed"
    try:
        if not arrived:
            runtime.calibrate(spec, lambda: iter([_X] * 2), tmp_path / "ranges")
        runtime.build(spec, None if arrived else tmp_path / "ranges", tmp_path / "engine")
        with runtime.open(spec, tmp_path / "engine") as engine:
            assert engine.run(_X).keys() == {tensor.name for tensor in engine.signature.outputs}
            assert engine.coverage(_X).pct is None or engine.size_bytes
    except QuantError as error:
        next_step = error.fix
    assert next_step
