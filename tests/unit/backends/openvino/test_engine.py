"""Layers of OpenVINO as its counters tell them, and of real engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import Feeds, get_backend
from pytest_quant.backends.openvino.engine import layer_time
from pytest_quant.backends.readback import LayerTime
from pytest_quant.spec import Calibration, EngineSpec, Model

DIGITS = Path(__file__).parents[4] / "example_project" / "digits.onnx"
NODES = {f"layer{number}" for number in range(9)}


@pytest.mark.parametrize(
    ("kind", "kernel", "nodes", "expected"),
    [
        ("Convolution", "brgconv_avx512_I8", ("layer0", "layer1"), ("int8", "compute")),
        ("FullyConnected", "gemm_mlas_f32", ("layer8",), ("fp32", "compute")),
        ("FakeQuantize", "jit_avx512_f32", (), ("fp32", "reformat")),
        ("Reorder", "jit_uni_I8", (), ("int8", "reformat")),
        ("Transpose", "unknown_f32", ("layer4",), ("fp32", "compute")),
        ("Convert", "unknown_bf16", (), ("bf16", "reformat")),
        ("Subgraph", "jit_avx512_f32", (), ("fp32", "other")),
    ],
)
def test_what_a_layer_is(kind: str, kernel: str, nodes: tuple[str, ...], expected: tuple[str, str]) -> None:
    """What OpenVINO adds changes types and layouts; the user's own operator of that name is work."""
    found = layer_time("layer", kind, kernel, 1.5, nodes)
    assert (found.precision, found.role) == expected
    assert (found.name, found.op, found.ms, found.nodes) == ("layer", kind, 1.5, nodes)


def _feeds(seed: int = 0) -> Feeds:
    return {"image": np.random.default_rng(seed).random((64, 1, 8, 8), dtype=np.float32)}


def _layers(folder: Path, precision: str, scheme: str | None) -> tuple[LayerTime, ...]:
    backend = get_backend("openvino")
    spec = EngineSpec("openvino", precision, scheme, Model.from_onnx(DIGITS), calibration=Calibration())

    def batches() -> Iterator[Feeds]:
        return iter([_feeds(seed) for seed in range(2)])

    ranges, built = folder / "ranges", folder / "built"
    ranges.mkdir()
    built.mkdir()
    calibrates = backend.calibration_ingredients(spec) is not None
    if calibrates:
        backend.calibrate(spec, batches, ranges)
    backend.build(spec, ranges if calibrates else None, built)
    engine = backend.open(spec, built)
    try:
        return engine.layer_times(_feeds())
    finally:
        engine.close()


@pytest.mark.parametrize(("precision", "scheme"), [("fp32", None), ("int8", "static")])
def test_every_product_is_one_layer_with_a_time(tmp_path: Path, precision: str, scheme: str | None) -> None:
    """In the precision that was asked for, each Relu with its convolution; what moves nothing has no layer."""
    if not get_backend("openvino").availability().available:
        pytest.skip("needs openvino")
    layers = _layers(tmp_path, precision, scheme)
    wanted = {"layer0", "layer2", "layer5", "layer8"}
    products = [layer for layer in layers if wanted & set(layer.nodes)]
    assert sorted(node for layer in products for node in layer.nodes if node in wanted) == sorted(wanted)
    assert len(products) == len(wanted)
    assert {layer.precision for layer in products} == {precision}
    assert {("layer0", "layer1"), ("layer2", "layer3"), ("layer5", "layer6")} <= {layer.nodes for layer in products}
    assert all(layer.ms is not None and layer.ms > 0.0 for layer in products)
    assert {node for layer in layers for node in layer.nodes} <= NODES
