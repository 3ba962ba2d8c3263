"""Sums of two products in OpenVINO's files: weights as integers, as floats to be rounded, and activations."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends.saturation import MOST
from tests.support import models

openvino = pytest.importorskip("openvino")
nncf = pytest.importorskip("nncf")

from pytest_quant.backends.openvino.integer_sums import find_exposed  # noqa: E402 - it needs what is skipped without

DEPTHWISE = "(float[n, 4, 6, 6] x) => (float[n, 4, 6, 6] y) { [net] y = Conv<pads = [1, 1, 1, 1], group = 4>(x, w) }"
FORMS = {
    "conv": (
        "(float[n, 4, 6, 6] x) => (float[n, 8, 6, 6] y) { [net] y = Conv<pads = [1, 1, 1, 1]>(x, w) }",
        (8, 4, 3, 3),
    ),
    "groups": (
        "(float[n, 4, 6, 6] x) => (float[n, 8, 6, 6] y) { [net] y = Conv<pads = [1, 1, 1, 1], group = 2>(x, w) }",
        (8, 2, 3, 3),
    ),
    "depthwise": (DEPTHWISE, (4, 1, 3, 3)),
    "dense": ("(float[n, 4] x) => (float[n, 8] y) { [net] y = MatMul(x, w) }", (4, 8)),
    "turned": ("(float[n, 4] x) => (float[n, 8] y) { [net] y = Gemm<transB = 1>(x, w) }", (8, 4)),
}


def _quantize(form: str, fix: str, folder: Path) -> None:
    graph, shape = FORMS[form]
    weights = np.random.default_rng(0).uniform(0.5, 1.0, shape).astype(np.float32)
    model = openvino.Core().read_model(models.parsed(folder / "net.onnx", graph, w=weights))
    inputs = (6, 6) if len(shape) == 4 else ()
    x = np.random.default_rng(1).normal(size=(8, 1, 4, *inputs)).astype(np.float32)
    parameters = nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix[fix])
    data = nncf.Dataset([{"x": each} for each in x])
    openvino.save_model(nncf.quantize(model, data, advanced_parameters=parameters), folder / "model.xml")


@pytest.mark.parametrize("form", sorted(FORMS.keys() - {"depthwise", "groups"}))
def test_eight_bits_are_exposed_and_seven_are_not(form: str, tmp_path: Path) -> None:
    """Weights between half of the range and all of it: some two of 8 bits pass 16 bits, no two of 7 bits do."""
    _quantize(form, "DISABLE", tmp_path)
    (found,) = find_exposed(tmp_path)
    assert found.name
    # Of two weights from 64 to 127 or 128, which an output has at least.
    assert MOST < found.largest <= 255 * (128 + 127)
    _quantize(form, "ENABLE", tmp_path)
    assert find_exposed(tmp_path) == ()


def test_kernels_of_single_channels_add_in_32_bits(tmp_path: Path) -> None:
    """Weights and inputs at the ends of their ranges: oneDNN limited to AVX2 gives the same to the bit."""
    _quantize("depthwise", "DISABLE", tmp_path)
    assert find_exposed(tmp_path) == ()
    x = np.random.default_rng(2).choice([-3.0, 3.0], (4, 4, 6, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    here, there = (_run(tmp_path, variables) for variables in ({}, {"ONEDNN_MAX_CPU_ISA": "AVX2"}))
    np.testing.assert_array_equal(here, there)


_SCRIPT = """
import sys
import numpy as np
import openvino

model = openvino.Core().compile_model("model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
np.save("y.npy", model(np.load("x.npy"))[0])
"""


def _run(folder: Path, variables: dict[str, str]) -> np.ndarray:
    subprocess.run([sys.executable, "-c", _SCRIPT], cwd=folder, env=os.environ | variables, check=True)
    found: np.ndarray = np.load(folder / "y.npy")
    return found


def test_weights_that_are_rounded_later_are_any_int8(tmp_path: Path) -> None:
    """NNCF leaves those of groups as floats behind a FakeQuantize."""
    _quantize("groups", "ENABLE", tmp_path)
    assert [each.largest for each in find_exposed(tmp_path)] == [math.inf]


def test_products_of_activations_are_any_int8(tmp_path: Path) -> None:
    """What nobody can see counts as the worst there is."""
    graph = """(float[n, 4, 4] x) => (float[n, 4, 4] y) {
        [a] a = MatMul(x, w) [b] b = MatMul(x, v) [net] y = MatMul(a, b) }"""
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=(4, 4)).astype(np.float32) for name in ("w", "v")}
    model = openvino.Core().read_model(models.parsed(tmp_path / "net.onnx", graph, **weights))
    data = nncf.Dataset([{"x": each} for each in rng.normal(size=(8, 1, 4, 4)).astype(np.float32)])
    parameters = nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.ENABLE)
    openvino.save_model(nncf.quantize(model, data, advanced_parameters=parameters), tmp_path / "model.xml")
    assert [(each.name, each.largest) for each in find_exposed(tmp_path)] in ([("y", math.inf)], [])
