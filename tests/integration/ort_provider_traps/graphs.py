"""Graphs of which OpenVINO takes a part, and ONNX Runtime's CPU provider the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from numpy.typing import NDArray
from onnx import numpy_helper

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g'
MATRIX = np.diag(np.arange(1, 5)).astype(np.float32)
"""Diagonal, so it is its own transpose and easy to invert."""


def between(call: str, path: Path) -> Path:
    """Write x W, then a node of Microsoft's own called ``middle``, ``Inverse(a)`` say, then its output times W."""
    text = f"""(float[4, 4] x) => (float[4, 4] y) {{
        [first] a = MatMul(x, w) [middle] b = com.microsoft.{call} [last] y = MatMul(a, b) }}"""
    return _save(text, path, w=MATRIX)


def alone(path: Path) -> Path:
    """Write a graph that is one node of Microsoft's own."""
    return _save("(float[4, 4] x) => (float[4, 4] y) { [lonely] y = com.microsoft.Inverse(x) }", path)


def classifier(path: Path) -> Path:
    """Write a linear classifier (n, 8) -> (n, 4) that reads its inputs through a product of Microsoft's own."""
    text = """(float[n, 8] x) => (float[n, 4] y) {
        [middle] a = com.microsoft.TransposeMatMul(x, same) [scores] y = MatMul(a, first_four) }"""
    return _save(text, path, same=np.eye(8, dtype=np.float32), first_four=np.eye(8, 4, dtype=np.float32))


def _save(text: str, path: Path, **weights: NDArray[np.float32]) -> Path:
    model = onnx.parser.parse_model(f"{HEAD} {text}")
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    onnx.save_model(model, path)
    return path
