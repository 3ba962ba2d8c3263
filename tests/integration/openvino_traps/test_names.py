"""Layers have the names of the user's model, and what the plugin has no int8 kernel for is no part of the reach."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_quant.spec import EngineSpec
from pytest_quant.testing.conformance.examples import sqnr_db
from tests.integration.openvino_traps.graphs import normal, quantized, write

_ALL = """(float[2, 4, 8] x) => (float[2, 12, 16] y, float[2, 3] z) <int64[1] zero = {0}> {
    [conv] c = Conv<pads = [1, 1]>(x, kernel, b) [act] r = Relu(c)
    [up] y = ConvTranspose<strides = [2], pads = [1, 1], group = 4>(r, wide, far)
    [turn] t = Transpose<perm = [2, 0, 1]>(r) [cell] u, h = GRU<hidden_size = 6>(t, W, R, B)
    [squeeze] s = Squeeze(h, zero) [fc] m = MatMul(s, V) [drop] z = Dropout(m) }"""
_WEIGHTS = {
    "kernel": normal(8, 4, 3),
    "b": normal(8),
    "wide": normal(8, 3, 4),
    "far": normal(12),
    "W": normal(1, 18, 8),
    "R": normal(1, 18, 6),
    "B": normal(1, 36),
    "V": normal(6, 3),
}
_CONV_MACS, _UP_MACS = 2 * 8 * 8 * 4 * 3, 2 * 8 * 8 * 3 * 4
_CELL_MACS, _FC_MACS = 2 * 8 * 18 * (8 + 6), 2 * 6 * 3


def test_names_are_those_of_the_model_each_time(tmp_path: Path) -> None:
    """OpenVINO calls them ``conv/WithoutBiases``, ``GroupConvolutionBackpropData_50``, ``GRUSequence_77`` and ``z``."""
    model = write(tmp_path / "all.onnx", _ALL, **_WEIGHTS)
    feeds = {"x": normal(2, 4, 8, seed=9)}
    for _ in range(2):
        with quantized(EngineSpec("openvino", "int8", "given", model, model)) as engine:
            coverage = engine.coverage(feeds)
        assert set(coverage.float_nodes) == {"conv", "up", "cell", "fc"}
        assert coverage.not_quantizable == {}


def test_what_has_no_int8_kernel_is_no_part_of_the_reach(tmp_path: Path) -> None:
    """Groups of a ConvTranspose and a GRU run in float; the rest is all that static can quantize."""
    model = write(tmp_path / "all.onnx", _ALL, **_WEIGHTS)
    with quantized(
        EngineSpec("openvino", "int8", "static", model), lambda seed: {"x": normal(2, 4, 8, seed=seed)}
    ) as it:
        coverage = it.coverage({"x": normal(2, 4, 8, seed=9)})
    total = _CONV_MACS + _UP_MACS + _CELL_MACS + _FC_MACS
    assert coverage.scheme_pct == 100.0
    assert coverage.pct == pytest.approx(100 * (_CONV_MACS + _FC_MACS) / total)
    assert coverage.not_quantizable == {
        "ConvTranspose": pytest.approx(100 * _UP_MACS / total),
        "recurrent cells": pytest.approx(100 * _CELL_MACS / total),
    }


@pytest.mark.parametrize(("kind", "gates", "both"), [("RNN", 1, False), ("RNN", 1, True), ("LSTM", 4, True)])
def test_cells_with_a_bias_build(tmp_path: Path, kind: str, gates: int, both: bool) -> None:
    """Of each kind, in both directions, and close to float."""
    sides = 2 if both else 1
    text = """(float[5, n, 4] x) => (float[n, 3] y) <int64[1] first = {0}, int64[1] second = {1}> {
        [cell] u, h = KIND<hidden_size = 8DIRECTION>(x, W, R, B) [slice] a = Slice(h, first, second)
        [squeeze] s = Squeeze(a, first) [fc] y = MatMul(s, w) }""".replace("KIND", kind)
    text = text.replace("DIRECTION", ', direction = "bidirectional"' if both else "")
    weights = {"W": normal(sides, gates * 8, 4), "R": normal(sides, gates * 8, 8), "B": normal(sides, 2 * gates * 8)}
    model = write(tmp_path / "cell.onnx", text, **weights, w=normal(8, 3))
    x = {"x": normal(5, 2, 4, seed=9)}
    with quantized(EngineSpec("openvino", "fp32", None, model)) as engine:
        reference = engine.run(x)
    with quantized(
        EngineSpec("openvino", "int8", "static", model), lambda seed: {"x": normal(5, 8, 4, seed=seed)}
    ) as it:
        assert sqnr_db(reference, it.run(x)) > 25
        assert it.coverage(x).float_nodes == ((f"{kind}Sequence",) if both else ("cell",))
        assert any("no int8 kernel: cell" in note for note in it.notes)
        assert np.isfinite(it.run(x)["y"]).all()
