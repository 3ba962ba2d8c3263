"""An excluded node is float in the file itself, whoever opens it, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

from pytest_quant.backends import get_backend
from pytest_quant.backends.onnx_files.lineage import PARTED
from pytest_quant.backends.ort.build import part_from_pairs
from pytest_quant.spec import EngineSpec, Model
from tests.support.models import parsed

WIDTH = 8


THREE_LAYERS = """(float[n, 8] x) => (float[n, 8] y) {
    [fc0] h0 = Gemm(x, w0, bias) [relu0] r0 = Relu(h0) [fc1] h1 = Gemm(r0, w1, bias) [relu1] r1 = Relu(h1)
    [fc2] y = Gemm(r1, w2, bias) }"""
"""Three dense layers; ``fc1`` lies between quantized tensors."""


def _three_layers(path: Path) -> Model:
    rng = np.random.default_rng(0)
    weights = {f"w{place}": rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) for place in range(3)}
    return Model.from_onnx(parsed(path, THREE_LAYERS, **weights, bias=np.zeros(WIDTH, np.float32)))


def _plain_session(file: Path, folder: Path, *disabled: str) -> tuple[dict[str, str], NDArray[np.float32]]:
    """Open `file` with nothing of ours set; return the operator of each node that runs, and the outputs."""
    settings = onnxruntime.SessionOptions()
    settings.optimized_model_filepath = str(folder / "optimized.onnx")
    session = onnxruntime.InferenceSession(
        str(file), settings, providers=["CPUExecutionProvider"], disabled_optimizers=list(disabled)
    )
    x = np.random.default_rng(2).normal(size=(16, WIDTH)).astype(np.float32)
    operators = {node.name: node.op_type for node in onnx.load(folder / "optimized.onnx").graph.node}
    return operators, session.run(["y"], {"x": x})[0]


def test_a_plain_session_of_the_file_runs_the_node_in_float(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights are quantized there without the copy in front; the outputs are those without that optimizer."""
    backend, model = get_backend("ort"), _three_layers(tmp_path / "three.onnx")
    spec = EngineSpec("ort", "int8", "static", model, exclude=("fc1",))
    ranges, parted, as_before = (tmp_path / name for name in ("ranges", "parted", "as_before"))
    for folder in (ranges, parted, as_before):
        folder.mkdir()
    x = np.random.default_rng(1).normal(size=(16, WIDTH)).astype(np.float32)
    backend.calibrate(spec, lambda: iter([{"x": x}]), ranges)
    backend.build(spec, ranges, parted)
    monkeypatch.setattr("pytest_quant.backends.ort.build.part_from_pairs", lambda *_: None)
    backend.build(spec, ranges, as_before)
    operators, outputs = _plain_session(parted / "model.onnx", tmp_path)
    assert [operators[name] for name in ("fc0", "fc1", "fc2")] == ["QGemm", "Gemm", "QGemm"]
    assert _plain_session(as_before / "model.onnx", tmp_path)[0]["fc1"] == "QGemm"
    _, expected = _plain_session(as_before / "model.onnx", tmp_path, "WeightBiasQuantization")
    np.testing.assert_array_equal(outputs, expected)


def test_only_what_reads_dequantized_values_is_parted(tmp_path: Path) -> None:
    """A move between the pair and the node counts as nothing; a node of float inputs, or of another name, stays."""
    graph = """(float[n, 2, 4] x, float s, uint8 z, int64[2] to, float[8, 8] w) => (float[n, 8] y) {
        [q] q = QuantizeLinear(x, s, z)
        [dq] d = DequantizeLinear(q, s, z)
        [move] m = Reshape(d, to)
        [fc] f = MatMul(m, w)
        [other] g = MatMul(m, w)
        [last] y = MatMul(f, g)
    }"""
    path = parsed(tmp_path / "model.onnx", graph)
    part_from_pairs(path, ["fc", "last"])
    nodes = {node.name: (node.op_type, list(node.input)) for node in onnx.load(path).graph.node}
    copied = f"{PARTED}_m_fc"
    assert nodes[f"{PARTED}_fc"] == ("Max", ["m"])
    assert (nodes["fc"], nodes["other"]) == (("MatMul", [copied, "w"]), ("MatMul", ["m", "w"]))
    assert nodes["last"] == ("MatMul", ["f", "g"])
    assert list(nodes) == ["q", "dq", "move", f"{PARTED}_fc", "fc", "other", "last"]
