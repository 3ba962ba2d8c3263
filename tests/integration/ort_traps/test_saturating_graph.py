"""Graphs whose products of matrices saturate: equal to numpy's sums cut to 16 bits, and to kernels of a Haswell."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_quant.backends import get_backend
from pytest_quant.backends.ort.integer_products import find_exposed
from pytest_quant.backends.ort.saturating_graph import saturate
from pytest_quant.backends.saturation import emulated_haswell
from pytest_quant.environment.machine import has_vnni
from pytest_quant.spec import EngineSpec, Model
from tests.support import models

emulated = pytest.mark.skipif(
    not has_vnni() or shutil.which("qemu-x86_64") is None, reason="no qemu-user, or a CPU that needs no emulator"
)
RNG = np.random.default_rng(5)
SCALES: dict[str, Any] = {
    "s": np.float32(0.02),
    "z": np.uint8(117),
    "ws": RNG.uniform(0.01, 0.02, 6).astype(np.float32),
}
QUANTIZED = "[q] aq = QuantizeLinear(x, s, z) [d] a = DequantizeLinear(aq, s, z)"
FORMS = {
    "matmul": f"(float[n, t, 9] x) => (float[n, t, 6] y) {{ {QUANTIZED} [w] b = DequantizeLinear<axis = 1>(w, ws)"
    " [fc] y = MatMul(a, b) }",
    "gemm": f"(float[n, 9] x) => (float[n, 6] y) {{ {QUANTIZED} [w] b = DequantizeLinear<axis = 0>(w, ws)"
    " [fc] y = Gemm<transB = 1>(a, b, c) }",
    "dynamic": "(float[n, t, 9] x) => (float[n, t, 6] y) { [q] aq, s, z = DynamicQuantizeLinear(x)"
    " [fc] i = MatMulInteger(aq, w, z) [f] f = Cast<to = 1>(i) [y] y = Mul(f, s) }",
}


def _write(form: str, folder: Path) -> tuple[EngineSpec, NDArray[np.int8]]:
    weights = RNG.integers(-128, 128, (9, 6)).astype(np.int8)
    stored = weights.T.copy() if form == "gemm" else weights
    constants: dict[str, Any] = {"w": stored} | ({} if form == "dynamic" else SCALES)
    constants |= {"c": RNG.normal(size=6).astype(np.float32)} if form == "gemm" else {}
    models.parsed(folder / "int8.onnx", FORMS[form], **constants)
    model = Model.from_onnx(folder / "int8.onnx")
    return EngineSpec("ort", "int8", "given", model, model), weights


def _by_numpy(form: str, x: NDArray[np.float32], weights: NDArray[np.int8], folder: Path) -> NDArray[np.float64]:
    """Quantize as ONNX defines it, add neighbours along k in 16 bits, and undo the zero point and the scales."""
    if form == "dynamic":
        low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
        scale: Any = np.float32((high - low) / 255)
        zero = int(np.clip(np.rint(-low / scale), 0, 255))
        scales: Any = scale
    else:
        scale, zero = SCALES["s"], int(SCALES["z"])
        scales = scale * SCALES["ws"]
    a = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.int64)
    a, w = np.pad(a, [*[(0, 0)] * (a.ndim - 1), (0, 1)]), np.pad(weights.astype(np.int64), ((0, 1), (0, 0)))
    pairs = a[..., 0::2, None] * w[0::2] + a[..., 1::2, None] * w[1::2]
    sums = np.clip(pairs, -(2**15), 2**15 - 1).sum(-2) - zero * w.sum(0)
    assert (np.abs(pairs) > 2**15).any(), "no sum of this case saturates"
    bias: Any = 0.0
    if form == "gemm":
        import onnx

        constants = {each.name: each for each in onnx.load(folder / "int8.onnx").graph.initializer}
        bias = onnx.numpy_helper.to_array(constants["c"])
    return np.asarray(sums * scales + bias)


@pytest.mark.parametrize("form", FORMS)
def test_sums_of_neighbours_are_cut_to_16_bits(form: str, tmp_path: Path) -> None:
    """Each form gives what numpy gives, for one batch axis and two, and an odd number of channels."""
    spec, weights = _write(form, tmp_path)
    x = RNG.normal(size=(3, 9) if form == "gemm" else (3, 5, 9)).astype(np.float32)
    engine = saturate(spec, tmp_path, tmp_path)
    assert engine is not None
    with engine:
        np.testing.assert_allclose(
            engine.run({"x": x})["y"], _by_numpy(form, x, weights, tmp_path), rtol=2e-6, atol=2e-6
        )


def test_what_cannot_saturate_is_not_computed_so(tmp_path: Path) -> None:
    """Weights of seven bits leave nothing to simulate."""
    models.parsed(tmp_path / "int8.onnx", FORMS["matmul"], w=np.full((9, 6), 64, np.int8), **SCALES)
    model = Model.from_onnx(tmp_path / "int8.onnx")
    assert saturate(EngineSpec("ort", "int8", "given", model, model), tmp_path, tmp_path) is None


@emulated
def test_kernels_of_a_haswell_give_the_same(tmp_path: Path) -> None:
    """In each form the real kernels differ from the graph by rounding of float32, 100 dB and more below."""
    for form in FORMS:
        (tmp_path / form).mkdir()
        spec, _ = _write(form, tmp_path / form)
        x = {"x": RNG.normal(size=(3, 9) if form == "gemm" else (3, 5, 9)).astype(np.float32)}
        engine = saturate(spec, tmp_path / form, tmp_path / form)
        assert engine is not None
        (there,) = emulated_haswell().run(spec, tmp_path / form, [x], 60.0)
        with engine:
            ours = engine.run(x)["y"]
        noise = float(np.sum((ours - there["y"]).astype(np.float64) ** 2))
        assert noise <= 1e-10 * float(np.sum(ours.astype(np.float64) ** 2)), form


DEPTHWISE = f"""(float[n, 8, 5, 5] x) => (float[n, 8, 5, 5] y) {{ {QUANTIZED} [w] b = DequantizeLinear(w, s)
    [conv] c = Conv<pads = [1, 1, 1, 1], group = 8>(a, b) [q2] i = QuantizeLinear(c, t, z)
    [y] y = DequantizeLinear(i, t, z) }}"""


@emulated
def test_kernels_of_single_channels_add_in_32_bits(tmp_path: Path) -> None:
    """Weights and inputs at the ends of their ranges: a Haswell gives the same to the bit, and none is exposed."""
    constants: dict[str, Any] = {"s": np.float32(1), "z": np.uint8(0), "t": np.float32(2000)}
    weights = RNG.choice([-128, 120, 127], (8, 1, 3, 3)).astype(np.int8)
    model = Model.from_onnx(models.parsed(tmp_path / "int8.onnx", DEPTHWISE, w=weights, **constants))
    spec = EngineSpec("ort", "int8", "given", model, model)
    assert find_exposed(spec, tmp_path) == ()
    x = {"x": RNG.choice([0, 250, 255], (2, 8, 5, 5)).astype(np.float32)}
    (there,) = emulated_haswell().run(spec, tmp_path, [x], 60.0)
    with get_backend("ort").open(spec, tmp_path) as engine:
        np.testing.assert_array_equal(engine.run(x)["y"], there["y"])
