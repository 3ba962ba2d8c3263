"""An excluded node is float in the file itself, whoever opens it, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from pytest_quant.backends import get_backend
from pytest_quant.backends.onnx_files.lineage import PARTED
from pytest_quant.backends.ort.build import part_from_pairs
from pytest_quant.spec import EngineSpec, Model

WIDTH = 8


def _three_layers(path: Path) -> Model:
    """Write three dense layers; ``fc1`` lies between quantized tensors."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for place in range(3):
        weights.append(numpy_helper.from_array(rng.normal(size=(WIDTH, WIDTH)).astype(np.float32), f"w{place}"))
        inputs = [f"r{place - 1}" if place else "x", f"w{place}", "bias"]
        nodes.append(helper.make_node("Gemm", inputs, ["y" if place == 2 else f"h{place}"], f"fc{place}"))
        if place < 2:
            nodes.append(helper.make_node("Relu", [f"h{place}"], [f"r{place}"], f"relu{place}"))
    weights.append(numpy_helper.from_array(np.zeros(WIDTH, np.float32), "bias"))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", WIDTH]) for name in "xy"]
    graph = helper.make_graph(nodes, "three", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    return Model.from_onnx(path)


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
    graph = onnx.parser.parse_graph(
        """
        agraph (float[n, 2, 4] x, float s, uint8 z, int64[2] to, float[8, 8] w) => (float[n, 8] y) {
            q = QuantizeLinear(x, s, z)
            d = DequantizeLinear(q, s, z)
            m = Reshape(d, to)
            f = MatMul(m, w)
            g = MatMul(m, w)
            y = MatMul(f, g)
        }
        """
    )
    for node, name in zip(graph.node, ("q", "dq", "move", "fc", "other", "last"), strict=True):
        node.name = name
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph), path)
    part_from_pairs(path, ["fc", "last"])
    nodes = {node.name: (node.op_type, list(node.input)) for node in onnx.load(path).graph.node}
    copied = f"{PARTED}_m_fc"
    assert nodes[f"{PARTED}_fc"] == ("Max", ["m"])
    assert (nodes["fc"], nodes["other"]) == (("MatMul", [copied, "w"]), ("MatMul", ["m", "w"]))
    assert nodes["last"] == ("MatMul", ["f", "g"])
    assert list(nodes) == ["q", "dq", "move", f"{PARTED}_fc", "fc", "other", "last"]
