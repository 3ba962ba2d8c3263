"""Small ONNX models whose samples lie where nobody expects them, with answers that are known by construction.

Each classifies by the largest of its scores, and the scores are sums of its input, so that the right class and every
output follow from the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = Sequence[int | str]
Ends = dict[str, tuple[int, Shape]]
Constants = dict[str, np.ndarray]
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def write(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: Ends,
    outputs: Ends,
    constants: Constants | None = None,
) -> Path:
    """Write a checked model of opset 17; inputs and outputs are ``(element type, shape)`` by name."""
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info(name, *info) for name, info in inputs.items()],
        [helper.make_tensor_value_info(name, *info) for name, info in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def time_major(path: Path, names: tuple[str, str] = ("T", "N")) -> Path:
    """(T, N, 8) -> (T, N, 4), each step by itself: the first four features times an identity matrix."""
    steps, samples = names
    return write(
        path,
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="scores")],
        {"x": (FLOAT, [steps, samples, 8])},
        {"y": (FLOAT, [steps, samples, 4])},
        {"w": np.eye(8, 4, dtype=np.float32)},
    )


def to_time_major(path: Path) -> Path:
    """(N, T, 8) -> (T, N, 4), as an OCR recognizer for CTC does; the names of the output's axes say nothing."""
    return write(
        path,
        [
            helper.make_node("MatMul", ["x", "w"], ["each"], name="scores"),
            helper.make_node("Transpose", ["each"], ["y"], perm=[1, 0, 2], name="turned"),
        ],
        {"x": (FLOAT, ["batch", "width", 8])},
        {"y": (FLOAT, ["a", "b", 4])},
        {"w": np.eye(8, 4, dtype=np.float32)},
    )


def batch_of_one(path: Path) -> Path:
    """(n, 8) -> (1, 4) by a Reshape to one row that the exporter wrote down; more than one sample cannot run."""
    return write(
        path,
        [
            helper.make_node("Reshape", ["x", "row"], ["one"], name="one_row"),
            helper.make_node("MatMul", ["one", "w"], ["y"], name="scores"),
        ],
        {"x": (FLOAT, ["batch", 8])},
        {"y": (FLOAT, ["batch", 4])},
        {"row": np.array([1, 8], np.int64), "w": np.eye(8, 4, dtype=np.float32)},
    )


def flattened(path: Path) -> Path:
    """(n, 3, 8) -> (n * 3, 4): the three rows of a sample are rows of the output."""
    return write(
        path,
        [
            helper.make_node("Reshape", ["x", "rows"], ["all"], name="flat"),
            helper.make_node("MatMul", ["all", "w"], ["y"], name="scores"),
        ],
        {"x": (FLOAT, ["batch", 3, 8])},
        {"y": (FLOAT, ["rows", 4])},
        {"rows": np.array([-1, 8], np.int64), "w": np.eye(8, 4, dtype=np.float32)},
    )


def with_state(path: Path) -> Path:
    """Audio [1, 8], state [2, 1, 4] and the scalar rate -> y [1, 4] = audio w + state[1] + rate * 0, and the state."""
    return write(
        path,
        [
            helper.make_node("MatMul", ["audio", "w"], ["scores"], name="scores"),
            helper.make_node("Gather", ["state", "one"], ["last"], axis=0, name="last"),
            helper.make_node("Add", ["scores", "last"], ["sum"], name="sum"),
            helper.make_node("Cast", ["rate"], ["rate_float"], to=FLOAT, name="cast"),
            helper.make_node("Mul", ["rate_float", "zero"], ["nothing"], name="nothing"),
            helper.make_node("Add", ["sum", "nothing"], ["y"], name="y"),
            helper.make_node("Identity", ["state"], ["state_out"], name="kept"),
        ],
        {"audio": (FLOAT, [1, 8]), "state": (FLOAT, [2, 1, 4]), "rate": (INT64, [])},
        {"y": (FLOAT, [1, 4]), "state_out": (FLOAT, [2, 1, 4])},
        {"w": np.eye(8, 4, dtype=np.float32), "one": np.array(1, np.int64), "zero": np.array(0, np.float32)},
    )


def weights_as_input(path: Path) -> Path:
    """X (n, 8) times the input w [8, 4], which is one matrix for all samples."""
    return write(
        path,
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="scores")],
        {"x": (FLOAT, ["batch", 8]), "w": (FLOAT, [8, 4])},
        {"y": (FLOAT, ["batch", 4])},
    )


def softmax_over_samples(path: Path) -> Path:
    """(n, 8) -> (n, 4) with a softmax over the samples: each sample's output depends on the others of its run."""
    return write(
        path,
        [
            helper.make_node("MatMul", ["x", "w"], ["scores"], name="scores"),
            helper.make_node("Softmax", ["scores"], ["y"], axis=0, name="shares"),
        ],
        {"x": (FLOAT, ["batch", 8])},
        {"y": (FLOAT, ["batch", 4])},
        {"w": np.eye(8, 4, dtype=np.float32)},
    )


def accumulator(path: Path) -> Path:
    """One step: h_out = h_in / 2 + x w, y = h_out, for (n, 8) and states (n, 4)."""
    return write(
        path,
        [
            helper.make_node("MatMul", ["x", "w"], ["now"], name="scores"),
            helper.make_node("Mul", ["h_in", "minus_half"], ["lost"], name="decay"),
            helper.make_node("Sub", ["now", "lost"], ["h_out"], name="subtract"),
            helper.make_node("Identity", ["h_out"], ["y"], name="y"),
        ],
        {"x": (FLOAT, ["batch", 8]), "h_in": (FLOAT, ["batch", 4])},
        {"y": (FLOAT, ["batch", 4]), "h_out": (FLOAT, ["batch", 4])},
        {"w": np.eye(8, 4, dtype=np.float32), "minus_half": np.array(-0.5, np.float32)},
    )


def noisy(path: Path) -> Path:
    """(n, 8) -> (n, 4) with noise as large as the scores, drawn anew in every run."""
    return write(
        path,
        [
            helper.make_node("MatMul", ["x", "w"], ["scores"], name="scores"),
            helper.make_node("RandomNormalLike", ["scores"], ["noise"], name="noise", scale=1.0),
            helper.make_node("Add", ["scores", "noise"], ["y"], name="add"),
        ],
        {"x": (FLOAT, ["batch", 8])},
        {"y": (FLOAT, ["batch", 4])},
        {"w": np.eye(8, 4, dtype=np.float32)},
    )


def constant(path: Path) -> Path:
    """(n, 8) -> (n, 4) where every sample gets the same scores."""
    return write(
        path,
        [
            helper.make_node("MatMul", ["x", "zeros"], ["nothing"], name="scores"),
            helper.make_node("Add", ["nothing", "bias"], ["y"], name="add"),
        ],
        {"x": (FLOAT, ["batch", 8])},
        {"y": (FLOAT, ["batch", 4])},
        {"zeros": np.zeros((8, 4), np.float32), "bias": np.array([3, 2, 1, 0], np.float32)},
    )


def classifier(path: Path) -> Path:
    """(n, 8) -> (n, 4): the first four features are the scores."""
    return write(
        path,
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="scores")],
        {"x": (FLOAT, ["batch", 8])},
        {"y": (FLOAT, ["batch", 4])},
        {"w": np.eye(8, 4, dtype=np.float32)},
    )


def with_anchors(path: Path, batch: int = 4) -> Path:
    """(4, 8) -> scores (4, 4), and anchors (3, 2) that are the same whatever goes in."""
    return write(
        path,
        [
            helper.make_node("MatMul", ["x", "w"], ["y"], name="scores"),
            helper.make_node("Identity", ["table"], ["anchors"], name="anchors"),
        ],
        {"x": (FLOAT, [batch, 8])},
        {"y": (FLOAT, [batch, 4]), "anchors": (FLOAT, [3, 2])},
        {"w": np.eye(8, 4, dtype=np.float32), "table": np.arange(6, dtype=np.float32).reshape(3, 2)},
    )


def layered_state(path: Path) -> Path:
    """One step with the state (1, n, 4), layers first: h_out = h_in / 2 + x w, y = h_out without its first axis."""
    return write(
        path,
        [
            helper.make_node("MatMul", ["x", "w"], ["now"], name="scores"),
            helper.make_node("Mul", ["h_in", "minus_half"], ["lost"], name="decay"),
            helper.make_node("Sub", ["now", "lost"], ["h_out"], name="subtract"),
            helper.make_node("Squeeze", ["h_out", "first"], ["y"], name="y"),
        ],
        {"x": (FLOAT, [1, 8]), "h_in": (FLOAT, [1, 1, 4])},
        {"y": (FLOAT, [1, 4]), "h_out": (FLOAT, [1, 1, 4])},
        {
            "w": np.eye(8, 4, dtype=np.float32),
            "minus_half": np.array(-0.5, np.float32),
            "first": np.array([0], np.int64),
        },
    )
