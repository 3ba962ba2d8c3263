"""Which products of a quantized file have sums that 16 bits may not hold, by their weights and by their form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends.ort.integer_products import find_exposed
from pytest_quant.spec import EngineSpec, Model
from tests.support import models

FULL, SEVEN = np.full((4, 2), 127, np.int8), np.full((4, 2), 64, np.int8)
QUANTIZED = """[q] aq = QuantizeLinear(x, s, z) [d] a = DequantizeLinear(aq, s, z)"""
MATRIX = f"""(float[n, 4] x) => (float[n, 2] y) {{
    {QUANTIZED} [dw] b = DequantizeLinear(w, s) [fc] y = MatMul(a, b) }}"""
GEMM = f"""(float[n, 4] x) => (float[n, 2] y) {{
    {QUANTIZED} [dw] b = DequantizeLinear(w, s) [fc] y = Gemm<transB = 1>(a, b) }}"""
CONV = f"""(float[n, 2, 3, 3] x) => (float[n, m, h, v] y) {{
    {QUANTIZED} [dw] b = DequantizeLinear(w, s) [conv] y = Conv(a, b) }}"""
DYNAMIC = """(float[n, 4] x) => (int32[n, 2] y) {
    [q] aq, s, z = DynamicQuantizeLinear(x) [fc_quant] y = MatMulInteger(aq, w, z) }"""
WEIGHTS_IN_FLOAT = f"""(float[n, 4] x) => (float[n, 2] y) {{
    {QUANTIZED} [qw] wq = QuantizeLinear(f, s, zw) [dw] b = DequantizeLinear(wq, s, zw) [fc] y = MatMul(a, b) }}"""
FLOAT = "(float[n, 4] x) => (float[n, 2] y) { [dw] b = DequantizeLinear(w, s) [fc] y = MatMul(x, b) }"
OF_ACTIVATIONS = f"""(float[4, 4] x) => (float[4, 4] y) {{
    {QUANTIZED} [q2] bq = QuantizeLinear(x, s, zb) [d2] b = DequantizeLinear(bq, s, zb) [mm] y = MatMul(a, b) }}"""

S, Z = {"s": np.float32(0.1)}, {"s": np.float32(0.1), "z": np.uint8(128)}
CASES: list[tuple[str, Mapping[str, Any], list[tuple[str, float]]]] = [
    (MATRIX, {**Z, "w": FULL}, [("fc", 255 * 254)]),
    (MATRIX, {**Z, "w": SEVEN}, []),
    (MATRIX, {**Z, "w": np.array([[127, -128], [-128, 127], [1, 0], [0, -1]], np.int8)}, [("fc", 255 * 129)]),
    (GEMM, {**Z, "w": FULL.T.copy()}, [("fc", 255 * 254)]),
    (CONV, {**Z, "w": np.full((3, 2, 2, 2), 127, np.int8)}, [("conv", 255 * 254)]),
    (CONV, {**Z, "w": np.full((3, 2, 1, 1), 64, np.int8)}, []),
    (CONV.replace("Conv(", "Conv<group = 2>("), {**Z, "w": np.full((2, 1, 2, 2), 127, np.int8)}, []),
    (CONV.replace("Conv(", "Conv<group = 2>("), {**Z, "w": np.full((4, 1, 2, 2), 127, np.int8)}, [("conv", 255 * 254)]),
    (DYNAMIC, {"w": FULL}, [("fc", 255 * 254)]),
    (DYNAMIC, {"w": FULL.astype(np.uint8)}, []),
    (WEIGHTS_IN_FLOAT, {**Z, "f": np.full((4, 2), 12.7, np.float32), "zw": np.int8(0)}, [("fc", 255 * 254)]),
    (WEIGHTS_IN_FLOAT, {**Z, "f": np.full((4, 2), 6.4, np.float32), "zw": np.int8(0)}, []),
    (FLOAT, {**S, "w": FULL}, []),
    (OF_ACTIVATIONS, {**Z, "zb": np.uint8(0)}, []),
    (OF_ACTIVATIONS, {**Z, "zb": np.int8(0)}, [("mm", math.inf)]),
]


@pytest.mark.parametrize(("graph", "constants", "found"), CASES)
def test_sums_come_from_the_weights_in_the_file(
    graph: str, constants: Mapping[str, Any], found: list[tuple[str, float]], tmp_path: Path
) -> None:
    """The largest sum is 255 times two weights of a sign; uint8 and float factors have none, unseen ones any."""
    models.parsed(tmp_path / "int8.onnx", graph, **constants)
    model = Model.from_onnx(tmp_path / "int8.onnx")
    assert list(find_exposed(EngineSpec("ort", "int8", "given", model, model), tmp_path)) == found
