"""Traps of ONNX Runtime's calibrators."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import Feeds, get_backend
from pytest_quant.backends.ort.build import RANGES_FILE
from pytest_quant.errors import BuildError
from pytest_quant.spec import Calibration, Model
from pytest_quant.testing.conformance.examples import dense, sqnr_db, tokens
from tests.integration.ort_traps.bench import engine_of, quantized, spec_of
from tests.support.measuring import numbers
from tests.support.models import parsed

HEAVY_TAIL = np.random.default_rng(1).standard_t(2, size=(40, 64)).astype(np.float32)


def batches(count: int = 12, peak_at: int | None = None) -> Iterator[Feeds]:
    """Yield `count` batches for `dense`, one of which may hold a peak of 1000."""
    for seed in range(count):
        feeds = dense().feeds(2, seed)
        if seed == peak_at:
            feeds["x"][0, 0] = 1000.0
        yield feeds


def ranges(folder: Path) -> dict[str, tuple[float, float]]:
    """Read the ranges back: tensor -> (lowest, highest)."""
    result = json.loads((folder / RANGES_FILE).read_text(encoding="utf-8"))["data"]
    return {name: (_number(entry["lowest"]), _number(entry["highest"])) for name, entry in result.items()}


def _number(value: object) -> float:
    return float(np.ravel(value["data"] if isinstance(value, dict) else value)[0])  # type: ignore[arg-type]


def test_ranges_of_other_weights_are_not_reused(tmp_path: Path) -> None:
    """Ranges found for other weights under the same file name ruin the model, and their key changes."""
    backend = get_backend("ort")
    spec = spec_of(dense().write(tmp_path), "static")
    old_key = backend.calibration_ingredients(spec)
    stale = quantized(spec, batches, tmp_path / "old").parent / "ranges"
    heavier = dense(scale=20.0)
    heavier.write(tmp_path)
    assert backend.calibration_ingredients(spec) != old_key
    feeds = heavier.feeds(16, 99)
    fresh = quantized(spec, batches, tmp_path / "new")
    planted = tmp_path / "planted"
    planted.mkdir()
    backend.build(spec, stale, planted)
    with backend.open(spec, fresh) as good, backend.open(spec, planted) as bad:
        assert sqnr_db(heavier.compute(feeds), good.run(feeds)) > 20
        assert sqnr_db(heavier.compute(feeds), bad.run(feeds)) < 5


def test_samples_without_a_range_are_the_cause(tmp_path: Path) -> None:
    """Where the float model gives NaN on them, its first tensor that has no range is named."""
    path = dense().write(tmp_path)
    with pytest.raises(BuildError, match="gives NaN or Inf in 'x' on the calibration samples") as raised:
        quantized(spec_of(path, "static"), lambda: ({"x": each["x"] * np.nan} for each in batches()), tmp_path / "b")
    assert "what they share" in str(raised.value.fix)


@pytest.mark.parametrize("peak_at", [0, 70, 129])
def test_no_batch_is_thrown_away(tmp_path: Path, peak_at: int) -> None:
    """A peak in the first, a middle or the last of 130 batches is in the range of the input."""
    spec = spec_of(dense().write(tmp_path), "static")
    quantized(spec, lambda: batches(130, peak_at), tmp_path / "b")
    assert ranges(tmp_path / "b" / "ranges")["x"][1] == 1000.0


@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile"])
def test_samples_of_different_shapes(tmp_path: Path, method: str) -> None:
    """Each method takes them, where ORT says "inhomogeneous shape" of two in one call."""
    spec = spec_of(tokens().write(tmp_path), "static", calibration=Calibration(method=method))
    with engine_of(spec, lambda: (tokens(length).feeds(1, length) for length in (3, 5, 3))) as engine:
        assert engine.run(tokens(4).feeds(2, 1))["y"].shape == (2, 4, 4)


def test_entropy_and_percentile_cut_the_tail(tmp_path: Path) -> None:
    """Both give narrower ranges than minmax on heavy-tailed data; with ORT's 128 bins entropy would not."""
    spec = spec_of(dense().write(tmp_path), "static")
    widths = {}
    for method in ("minmax", "entropy", "percentile"):
        method_spec = replace(spec, calibration=Calibration(method=method, percentile=99.0))
        quantized(method_spec, lambda: iter([{"x": HEAVY_TAIL}]), tmp_path / method)
        low, high = ranges(tmp_path / method / "ranges")["x"]
        widths[method] = high - low
    assert widths["minmax"] == pytest.approx(float(HEAVY_TAIL.max() - HEAVY_TAIL.min()))
    assert widths["percentile"] < 0.5 * widths["minmax"]
    assert widths["entropy"] < 0.9 * widths["minmax"]


def test_histograms_stay_within_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Activations merged batch by batch give the range of the whole, to one bin."""
    spec = spec_of(dense().write(tmp_path), "static", calibration=Calibration(method="percentile", percentile=99.9))
    quantized(spec, batches, tmp_path / "whole")
    monkeypatch.setattr("pytest_quant.backends.ort.build._HISTOGRAM_BYTES", 1)
    quantized(spec, batches, tmp_path / "parts")
    whole, parts = ranges(tmp_path / "whole" / "ranges"), ranges(tmp_path / "parts" / "ranges")
    for name, limits in whole.items():
        assert parts[name] == pytest.approx(limits, rel=0.05, abs=0.05)


RAGGED = """(float[n, t, 8] x) => (float[n, 4] y) <float zero = {0}> {
    [first] w = MatMul(x, W) [over] o = Greater(w, zero) [where] places = NonZero(o)
    [rows] r = Transpose<perm = [1, 0]>(places) [kept] k = GatherND(w, r) [line] l = Unsqueeze(k, last)
    [second] v = MatMul(l, V) [sum] s = ReduceSum<keepdims = 0>(v)
    [mean] m = ReduceMean<axes = [1], keepdims = 0>(w) [all] y = Add(m, s) }"""
"""As many rows reach ``second`` as values are above 0, none in some samples."""


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy"])
def test_tensors_whose_size_depends_on_the_data(tmp_path: Path, method: str) -> None:
    """Empty in some samples and never of one shape: histograms take them as the other method does."""
    weights = {"W": np.abs(numbers(8, 4)), "V": numbers(1, 1, seed=1), "last": np.array([1])}
    model = Model.from_onnx(parsed(tmp_path / "ragged.onnx", RAGGED, **weights))
    samples = [np.abs(numbers(1, 2, 8, seed=seed)) * (-1 if seed % 3 == 0 else 1) for seed in range(9)]
    spec = spec_of(model, "static", calibration=Calibration(method))
    with engine_of(spec, lambda: ({"x": each} for each in samples)) as engine:
        for each in samples:
            assert np.isfinite(engine.run({"x": each})["y"]).all()
