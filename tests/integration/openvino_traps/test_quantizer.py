"""What NNCF is told arrives in the quantized model."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest

from pytest_quant.backends import Feeds, get_backend
from pytest_quant.environment.machine import has_vnni, onednn_tier
from pytest_quant.errors import BuildError
from pytest_quant.spec import Calibration, EngineSpec, Model
from pytest_quant.testing.conformance.examples import sqnr_db
from tests.integration.openvino_traps.graphs import Array, normal, quantized, write
from tests.support.example import environment

OPENVINO = get_backend("openvino")


def all_high(path: Path) -> tuple[Model, Array]:
    """A dense layer whose weights are all near their largest."""
    weights = np.random.default_rng(0).uniform(0.9, 1.0, (256, 16)).astype(np.float32)
    return write(path, "(float[n, 256] x) => (float[n, 16] y) { [product] y = MatMul(x, w) }", w=weights), weights


def high_inputs(seed: int) -> Feeds:
    """Inputs near their largest."""
    return {"x": np.random.default_rng(seed).uniform(0.9, 1.0, (32, 256)).astype(np.float32)}


def lopsided(seed: int) -> Feeds:
    """Inputs from -1 to 3, both ends included."""
    values = np.random.default_rng(seed).uniform(-1.0, 3.0, (32, 256)).astype(np.float32)
    values[0, :2] = -1.0, 3.0
    return {"x": values}


def quantize(spec: EngineSpec, folder: Path, feeds: Any = high_inputs) -> Any:
    """Return OpenVINO's model that calibration wrote."""
    folder.mkdir()
    OPENVINO.check(spec)
    OPENVINO.calibrate(spec, lambda: (feeds(seed) for seed in range(4)), folder)
    return openvino.Core().read_model(folder / "model.xml")


def input_range(model: Any) -> tuple[float, float]:
    """Return the range that the first FakeQuantize takes."""
    node = next(each for each in model.get_ordered_ops() if each.get_type_name() == "FakeQuantize")
    low, high = (node.input_value(place).get_node().data.item() for place in (1, 2))
    return low, high


@pytest.mark.parametrize(
    ("choice", "largest"), [("enable", 64), ("disable", 127), (None, 127 if has_vnni(onednn_tier()) else 64)]
)
def test_bits_of_weights(choice: str | None, largest: int, tmp_path: Path) -> None:
    """Seven bits reach 2^6, eight reach 2^7 - 1; the default is what this CPU can add up."""
    model, _ = all_high(tmp_path / "high.onnx")
    options = () if choice is None else (("overflow_fix", choice),)
    result = quantize(EngineSpec("openvino", "int8", "static", model, options=options), tmp_path / "out")
    stored = [
        node.data.astype(int)
        for node in result.get_ordered_ops()
        if node.get_type_name() == "Constant" and node.get_element_type() == openvino.Type.i8
    ]
    assert [int(np.abs(array).max()) for array in stored] == [largest]


def test_presets(tmp_path: Path) -> None:
    """Performance: as far below zero as above it. Mixed: a zero point where the inputs are lopsided."""
    model, _ = all_high(tmp_path / "high.onnx")
    spec = EngineSpec("openvino", "int8", "static", model)
    low, high = input_range(quantize(spec, tmp_path / "performance", lopsided))
    assert low == pytest.approx(-high, rel=0.01)
    assert high == pytest.approx(3.0, rel=0.01)
    mixed = replace(spec, options=(("preset", "mixed"),))
    assert input_range(quantize(mixed, tmp_path / "mixed", lopsided)) == pytest.approx((-1.0, 3.0), abs=0.02)


@pytest.mark.parametrize("options", [(), (("model_type", "transformer"),), (("fast_bias_correction", False),)])
def test_sums_do_not_saturate(options: tuple[tuple[str, object], ...], tmp_path: Path) -> None:
    """Sums of such inputs and weights exceed 16 bits: without VNNI they would saturate at 8 bits, and do not."""
    model, weights = all_high(tmp_path / "high.onnx")
    feeds = high_inputs(7)
    with quantized(EngineSpec("openvino", "int8", "static", model, options=options), high_inputs) as engine:
        assert engine.coverage(feeds).pct == 100.0
        assert sqnr_db({"y": feeds["x"] @ weights}, engine.run(feeds)) > 30


def test_every_batch_counts(tmp_path: Path) -> None:
    """The range reaches as far as the largest value, which stands in the last batch alone."""
    model, _ = all_high(tmp_path / "high.onnx")

    def feeds(seed: int) -> Feeds:
        return {"x": high_inputs(seed)["x"] * (4.0 if seed == 3 else 1.0)}

    spec = EngineSpec("openvino", "int8", "static", model)
    largest = float(feeds(3)["x"].max())
    assert input_range(quantize(spec, tmp_path / "minmax", feeds))[1] == pytest.approx(largest, rel=1e-5)


def test_percentile_of_a_known_distribution(tmp_path: Path) -> None:
    """The 75th percentile of a uniform distribution from 0 to 1 is 0.75."""
    model, _ = all_high(tmp_path / "high.onnx")
    spec = EngineSpec("openvino", "int8", "static", model, calibration=Calibration("percentile", percentile=75.0))

    def uniform(seed: int) -> Feeds:
        return {"x": np.random.default_rng(seed).uniform(0.0, 1.0, (64, 256)).astype(np.float32)}

    assert input_range(quantize(spec, tmp_path / "cut", uniform))[1] == pytest.approx(0.75, abs=0.02)


def test_a_bias_correction_that_fails_names_its_option(tmp_path: Path) -> None:
    """NNCF looks for the batch on an axis that products from the left do not have; without that step it quantizes."""
    text = """(float[8, n] x) => (float[10, n] y) {
        [fc1] m = MatMul(w, x) [bias] a = Add(m, b) [relu] r = Relu(a) [fc2] y = MatMul(v, r) }"""
    weights = {"w": normal(16, 8), "b": normal(16, 1, seed=1), "v": normal(10, 16, seed=2)}
    model = write(tmp_path / "last.onnx", text, **weights)
    spec = EngineSpec("openvino", "int8", "static", model)

    def feeds(seed: int) -> Feeds:
        return {"x": normal(8, 1, seed=seed)}

    with pytest.raises(BuildError, match="to quantize last") as raised, quantized(spec, feeds):
        pass
    assert "options={'fast_bias_correction': False}" in str(raised.value.fix)
    assert "exclude" not in str(raised.value.fix)
    with quantized(replace(spec, options=(("fast_bias_correction", False),)), feeds) as engine:
        assert engine.run(feeds(0))["y"].shape == (10, 1)


def test_the_log_of_a_user_of_nncf(tmp_path: Path) -> None:
    """Log lines stay away where NNCF was imported before, and come again afterwards, on the stream they had."""
    model, _ = all_high(tmp_path / "high.onnx")
    script = f"""
import sys
{{first}}
from pathlib import Path
from pytest_quant.backends import get_backend
from pytest_quant.spec import EngineSpec, Model
from tests.integration.openvino_traps.test_quantizer import high_inputs
spec = EngineSpec("openvino", "int8", "static", Model.from_onnx({str(model.path)!r}), exclude=("product",))
get_backend("openvino").calibrate(spec, lambda: iter([high_inputs(0)]), Path(sys.argv[1]))
import logging
logging.getLogger("nncf").error("from the user")
"""
    for number, first in enumerate(("import nncf", "")):
        folder = tmp_path / f"out{number}"
        folder.mkdir()
        run = subprocess.run(
            [sys.executable, "-c", script.replace("{first}", first), str(folder)],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert run.returncode == 0, run.stderr
        assert (run.stdout + run.stderr).strip().splitlines() == ["ERROR:nncf:from the user"]
