"""Coverage is what the kernels did, not what a file or a property says."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

import numpy as np
import openvino
import pytest

from pytest_quant.backends import get_backend
from pytest_quant.backends.openvino.engine import compile_model
from pytest_quant.environment.machine import has_vnni, onednn_tier
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import build, conv, dense, open_example, sqnr_db
from tests.integration.openvino_traps.graphs import normal, quantized, recurrent, write

OPENVINO = get_backend("openvino")


def test_int8_weights_under_float_inputs_are_no_int8(tmp_path: Path) -> None:
    """Layers that report i8 and multiply in float32 count 0, in a file with FakeQuantize and int8 weights."""
    example = dense()
    model, folder = example.write(tmp_path), tmp_path / "engine"
    folder.mkdir()
    ready = build(OPENVINO, EngineSpec("openvino", "int8", "static", model), example, folder) / "model.xml"
    text, changed = re.subn(r'levels="256"', 'levels="65536"', ready.read_text())
    assert changed > 0
    ready.write_text(text)
    assert 'element_type="i8"' in text
    feeds = example.feeds(1, 0)
    in_float = (("dynamic_quantization", 0),)
    as_int8 = EngineSpec("openvino", "int8", "given", model, options=in_float, quantized=Model.from_onnx(ready))
    with open_example(OPENVINO, as_int8, example) as engine:
        result = engine.coverage(feeds)
    assert (result.pct, len(result.float_nodes)) == (0.0, 2)
    assert result.weights_pct == 100.0
    with open_example(OPENVINO, EngineSpec("openvino", "fp32", None, Model.from_onnx(ready)), example) as engine:
        result = engine.coverage(feeds)
    assert (result.pct, result.weights_pct) == (100.0, None)


def test_int8_is_no_float(tmp_path: Path) -> None:
    """An engine that is asked for fp32 and runs INT8 kernels has coverage 0."""
    example = conv()
    model, folder = example.write(tmp_path), tmp_path / "engine"
    folder.mkdir()
    ready = build(OPENVINO, EngineSpec("openvino", "int8", "static", model), example, folder) / "model.xml"
    with open_example(OPENVINO, EngineSpec("openvino", "fp32", None, Model.from_onnx(ready)), example) as engine:
        result = engine.coverage(example.feeds(1, 0))
    assert (result.pct, len(result.float_nodes)) == (0.0, 2)


def test_int8_weights_run_as_they_are_deployed(tmp_path: Path) -> None:
    """A plain session rounds the inputs of such a layer; so does the engine, says so, and may be told not to."""
    weights = np.random.default_rng(0).integers(-127, 128, (64, 8)).astype(np.int8)
    text = """(float[n, 64] x) => (float[n, 8] y) {
        [widened] w = DequantizeLinear(q, scale) [product] y = MatMul(x, w) }"""
    ready = write(tmp_path / "held.onnx", text, q=weights, scale=np.array(0.01, np.float32))
    assert ready.path is not None
    plain = openvino.Core().compile_model(str(ready.path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    feeds = {"x": normal(4, 64)}
    exact = feeds["x"].astype(np.float64) @ (weights * 0.01)
    for size in (None, 0):
        options = () if size is None else (("dynamic_quantization", size),)
        spec = EngineSpec("openvino", "int8", "given", ready, options=options, quantized=ready)
        with quantized(spec) as engine:
            result, notes = engine.run(feeds)["y"], engine.notes
            assert engine.coverage(feeds).weights_pct == 100.0
        rounds = size is None and has_vnni(onednn_tier())
        assert any("options={'dynamic_quantization': 0}" in note for note in notes) is rounds
        assert (sqnr_db({"y": exact}, {"y": result}) > 100) is not rounds
        if size is None:
            np.testing.assert_array_equal(result, plain(feeds["x"])[0])


def test_nothing_of_a_reference_is_quantized_as_it_runs(tmp_path: Path) -> None:
    """Dynamic quantization, on by default, is off in what is compiled."""
    spec = EngineSpec("openvino", "fp32", None, dense().write(tmp_path))
    compiled = compile_model(openvino.Core().read_model(tmp_path / "dense.onnx"), spec)
    assert int(compiled.get_property("DYNAMIC_QUANTIZATION_GROUP_SIZE")) == 0
    assert int(compiled.get_property("NUM_STREAMS")) == 1
    assert int(compiled.get_property("INFERENCE_NUM_THREADS")) == 1


def test_a_recurrence_in_float_is_seen(tmp_path: Path) -> None:
    """An LSTM, under OpenVINO's name for it, is compute."""
    with quantized(EngineSpec("openvino", "fp32", None, recurrent(tmp_path / "net.onnx"))) as engine:
        rows = engine.coverage({"x": normal(5, 2, 4)}).by_op
    assert {row.op_type for row in rows if row.op_type != "Reorder"} == {"FullyConnected", "RNNSeq"}


@pytest.mark.parametrize(
    ("outside", "inside", "pct", "high_pct", "unit", "opaque"),
    [
        ("a = Relu(x)", "MatMul", None, None, "nodes", 1),
        ("a = MatMul(x, w)", "MatMul", 50.0, 100.0, "nodes", 1),
        ("a = MatMul(x, w)", "Add", 100.0, None, "MACs", 0),
    ],
)
def test_a_branch_counts_where_a_product_is_in_it(
    tmp_path: Path, outside: str, inside: str, pct: float | None, high_pct: float | None, unit: str, opaque: int
) -> None:
    """A product inside cannot be seen, and leaves one of two proven; a branch without one takes nothing away."""
    text = f"""(bool[1] c, float[n, 8] x) => (float[n, 8] y) {{
        {outside} y = If(c)<then_branch = yes () => (float[n, 8] t) {{ t = {inside}(a, w) }},
                            else_branch = no () => (float[n, 8] e) {{ e = Neg(a) }}> }}"""
    with quantized(EngineSpec("openvino", "fp32", None, write(tmp_path / "if.onnx", text, w=normal(8, 8)))) as engine:
        result = engine.coverage({"c": np.array([True]), "x": normal(8, 8)})
    assert (result.pct, result.high_pct, result.unit, result.opaque_nodes) == (pct, high_pct, unit, opaque)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_macs_of_a_compiled_model(precision: str, tmp_path: Path) -> None:
    """Three samples: 8 maps of 36 places with 9 products each, and 288 x 10 of the dense layer, in every precision."""
    example = conv()
    spec = EngineSpec("openvino", precision, "static" if precision == "int8" else None, example.write(tmp_path))
    with open_example(OPENVINO, spec, example) as engine:
        result = engine.coverage(example.feeds(3, 0))
    expected = {"Convolution": 3 * prod((8, 36, 9)), "FullyConnected": 3 * 288 * 10}
    assert result.unit == "MACs"
    assert {row.op_type: row.macs for row in result.by_op if row.macs is not None} == expected
