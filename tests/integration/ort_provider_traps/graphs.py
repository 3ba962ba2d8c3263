"""Graphs of which OpenVINO takes a part, and ONNX Runtime's CPU provider the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

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


def _save(nodes: list[onnx.NodeProto], path: Path) -> Path:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(MATRIX, "w")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    onnx.save_model(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path
