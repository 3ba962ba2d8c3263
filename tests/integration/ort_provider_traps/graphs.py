"""Graphs of which OpenVINO takes a part, and ONNX Runtime's CPU provider the rest."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Shape: TypeAlias = tuple[int | str, int]
MICROSOFT = "com.microsoft"
MATRIX = np.diag(np.arange(1, 5)).astype(np.float32)
"""Diagonal, so it is its own transpose and easy to invert."""


def between(op_type: str, path: Path, *inputs: str) -> Path:
    """Write x W, then a node of Microsoft's own called ``middle`` on `inputs`, then its output times W."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node(op_type, inputs, ["b"], name="middle", domain=MICROSOFT),
        helper.make_node("MatMul", ["a", "b"], ["y"], name="last"),
    ]
    return _save(nodes, path)


def alone(op_type: str, path: Path) -> Path:
    """Write a graph that is one node of Microsoft's own."""
    return _save([helper.make_node(op_type, ["x"], ["y"], name="lonely", domain=MICROSOFT)], path)


def classifier(path: Path) -> Path:
    """Write a linear classifier (n, 8) -> (n, 4) that reads its inputs through a product of Microsoft's own."""
    weights = {"same": np.eye(8, dtype=np.float32), "first_four": np.eye(8, 4, dtype=np.float32)}
    nodes = [
        helper.make_node("TransposeMatMul", ["x", "same"], ["a"], name="middle", domain=MICROSOFT),
        helper.make_node("MatMul", ["a", "first_four"], ["y"], name="scores"),
    ]
    return _save(nodes, path, ("n", 8), ("n", 4), weights)


def _save(
    nodes: list[onnx.NodeProto],
    path: Path,
    reads: Shape = (4, 4),
    gives: Shape = (4, 4),
    weights: dict[str, NDArray[np.float32]] | None = None,
) -> Path:
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", reads), ("y", gives))
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in (weights or {"w": MATRIX}).items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    onnx.save_model(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path
