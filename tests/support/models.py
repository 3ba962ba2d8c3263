"""Small ONNX models whose answers are known by construction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.parser
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

FEATURES, CLASSES = 8, 4


def select_first(
    path: Path, *, batch: int | str = "n", scale: float = 1.0, input_name: str = "x", outputs: int = 1, opset: int = 17
) -> Path:
    """Write a linear classifier (n, 8) -> (n, 4) whose scores are the first four features times `scale`.

    So the class of a sample is the largest of its first four features. A second output ``z``, where asked for,
    is the negative of the first.
    """
    weights = {"weight": scale * np.eye(FEATURES, CLASSES, dtype=np.float32)}
    nodes = [helper.make_node("MatMul", [input_name, "weight"], ["y"], name="scores")]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, CLASSES])]
    if outputs == 2:
        weights["minus"] = -np.eye(CLASSES, dtype=np.float32)
        nodes.append(helper.make_node("MatMul", ["y", "minus"], ["z"], name="negative"))
        results.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [batch, CLASSES]))
    graph = helper.make_graph(
        nodes,
        "select_first",
        [helper.make_tensor_value_info(input_name, TensorProto.FLOAT, [batch, FEATURES])],
        results,
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return save(graph, path, opset)


def log_of_input(path: Path) -> Path:
    """Write a model (n, 8) -> (n, 4) that gives NaN wherever one of the first four features is negative."""
    return _selecting(path, "n", "[log] y = Log(selected)")


def mean_over_time(path: Path) -> Path:
    """Write a model (n, t, 8) -> (n, 4) over sequences of any length t."""
    return _selecting(path, "n, t", "[mean] y = ReduceMean<axes = [1], keepdims = 0>(selected)")


def _selecting(path: Path, axes: str, node: str) -> Path:
    """Write a model of inputs with these axes whose `node` gives ``y`` of the first four features, ``selected``."""
    graph = f"""(float[{axes}, {FEATURES}] x) => (float[n, {CLASSES}] y) {{
        [scores] selected = MatMul(x, weight) {node} }}"""
    return parsed(path, graph, weight=np.eye(FEATURES, CLASSES, dtype=np.float32))


def unknown_operator(path: Path) -> Path:
    """Write a valid ONNX file with an operator that no runtime has."""
    graph = helper.make_graph(
        [helper.make_node("Frobnicate", ["x"], ["y"], name="odd", domain="example.invalid")],
        "unknown_operator",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", CLASSES])],
    )
    return save(graph, path, 17)


def with_external_data(path: Path, location: str) -> Path:
    """Write `select_first` with its weight in an external file at `location`, without writing that file."""
    select_first(path)
    model = onnx.load(str(path))
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", "0"), ("length", str(4 * FEATURES * CLASSES))):
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return path


def parsed(path: Path, graph: str, opset: int = 17, /, **constants: NDArray[Any]) -> Path:
    """Write the graph that is spelled in ONNX's own text format, without its name, and with these constants too."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> parsed {graph}')
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


def save(graph: onnx.GraphProto, path: Path, opset: int) -> Path:
    """Write `graph` as a model of that opset."""
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("example.invalid", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def samples(n: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return `n` samples (n, 8) and the class `select_first` gives each."""
    inputs = np.random.default_rng(seed).normal(size=(n, FEATURES)).astype(np.float32)
    return inputs, inputs[:, :CLASSES].argmax(axis=1)


def run_unoptimized(path: Path, feeds: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Run the model in `path` once over `feeds` by ONNX Runtime, without any optimization."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))
