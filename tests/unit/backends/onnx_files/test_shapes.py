"""The largest tensor inside a graph, by the shapes that ONNX infers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from pytest_quant.backends.onnx_files.shapes import largest_tensor
from tests.support.models import parsed, save

ATTENTION = """(float[n, t, 16] x) => (float[n, t, 16] y) {
    turned = Transpose<perm = [0, 2, 1]>(x) scores = MatMul(x, turned) shares = Softmax<axis = -1>(scores)
    y = MatMul(shares, x) }"""
"""Scores (n, t, t) are the largest for more than 16 steps."""

RESHAPED = """(float[n, 3, h, w] x) => (float[n, k] y) {
    wide = Conv<pads = [1, 1, 1, 1]>(x, weight) shape = Shape(wide) first = Slice(shape, zero, one)
    sizes = Concat<axis = 0>(first, rest) flat = Reshape(wide, sizes) small = ReduceMean<axes = [1], keepdims = 0>(flat)
    y = MatMul(small, mixed) }"""
"""A size is computed from a shape, as exporters write it."""

BRANCHES = """(float[n, 8] x, bool flag) => (float[n, 8] y) {
    y = If(flag) <
        then_branch = g1 () => (float[n, 8] a) {
            wide = Concat<axis = 1>(x, x, x, x) a = Slice(wide, zero, eight, one) },
        else_branch = g2 () => (float[n, 8] b) { b = Identity(x) }
    > }"""
"""The largest tensor is in a body, 4 times as wide as what goes in and out."""


@pytest.mark.parametrize(
    ("graph", "shapes", "weights", "expected"),
    [
        (ATTENTION, {"x": (1, 100, 16)}, {}, 4 * 100 * 100),
        (ATTENTION, {"x": (1, 10, 16)}, {}, 4 * 10 * 16),
        (
            RESHAPED,
            {"x": (1, 3, 20, 30)},
            {
                "weight": np.zeros((64, 3, 3, 3), np.float32),
                "mixed": np.zeros((600, 20), np.float32),
                "zero": np.array([0]),
                "one": np.array([1]),
                "rest": np.array([64, 600]),
            },
            4 * 64 * 20 * 30,
        ),
        (
            BRANCHES,
            {"x": (1, 8), "flag": ()},
            {"zero": np.array([0, 0]), "eight": np.array([99, 8]), "one": np.array([0, 1])},
            4 * 32,
        ),
    ],
    ids=["attention", "short attention", "computed shape", "body"],
)
def test_the_largest_tensor_is_found(
    graph: str, shapes: dict[str, tuple[int, ...]], weights: dict[str, np.ndarray], expected: int, tmp_path: Path
) -> None:
    """For one sample, by hand: values times their bytes; weights are none of them."""
    assert largest_tensor(parsed(tmp_path / "net.onnx", graph, **weights), shapes) == expected


def test_types_count_by_their_bytes(tmp_path: Path) -> None:
    """Doubles take eight."""
    path = parsed(tmp_path / "net.onnx", "(float[n, 7] x) => (double[n, 7] y) { y = Cast<to = 11>(x) }")
    assert largest_tensor(path, {"x": (1, 7)}) == 8 * 7


def test_what_nothing_tells_is_0(tmp_path: Path) -> None:
    """No file, another file, and a size that only values decide."""
    assert largest_tensor(tmp_path / "no.onnx", {}) == 0
    (tmp_path / "text.xml").write_text("<net/>", encoding="utf-8")
    assert largest_tensor(tmp_path / "text.xml", {}) == 0
    graph = onnx.parser.parse_graph("net (float[n] x) => (int64[1, k] y) { y = NonZero(x) }")
    assert largest_tensor(save(graph, tmp_path / "net.onnx", 17), {"x": (5,)}) == 0
