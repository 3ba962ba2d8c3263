"""The OpenVINO plugin beside ONNX Runtime's own CPU provider: who ran what."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import Engine, Feeds, get_backend
from pytest_quant.backends.ort.openvino import OPENVINO, OrtOpenVinoBackend, make_provider
from pytest_quant.backends.ort.session import open_session
from pytest_quant.errors import BuildError
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import dense
from tests.integration.ort_provider_traps.any_cpu import offer_any_cpu
from tests.integration.ort_provider_traps.graphs import MATRIX, alone, between

CPU = "CPUExecutionProvider"


@pytest.fixture(scope="module", autouse=True)
def _plugin() -> None:
    offer_any_cpu()


@pytest.fixture
def feeds() -> Feeds:
    """One batch for the graphs of this folder."""
    return {"x": np.random.default_rng(3).normal(size=(4, 4)).astype(np.float32)}


def opened(path: Path, **options: object) -> Engine:
    """Open the float model in `path`."""
    spec = EngineSpec("ort-openvino", "fp32", None, Model.from_onnx(path), options=tuple(options.items()))
    return OrtOpenVinoBackend().open(spec, path.parent)


def test_a_product_that_falls_back_is_refused(tmp_path: Path) -> None:
    """OpenVINO has no TransposeMatMul; ONNX Runtime would run it on the CPU provider and say nothing."""
    path = between("TransposeMatMul(a, w)", tmp_path / "split.onnx")
    with pytest.raises(BuildError, match="does not run on the device that was asked for") as caught:
        opened(path)
    assert f"middle (TransposeMatMul) on {CPU}" in str(caught.value)
    assert "first" not in str(caught.value)


def test_what_is_no_product_may_fall_back_and_is_told(tmp_path: Path, feeds: Feeds) -> None:
    """An Inverse on the CPU provider is in the notes; products stay on OpenVINO, and the outputs are right."""
    with opened(between("Inverse(a)", tmp_path / "beside.onnx")) as engine:
        result = engine.run(feeds)["y"]
        coverage = engine.coverage(feeds)
    assert engine.notes == (f"1 nodes without products run on {CPU}: Inverse",)
    product = feeds["x"].astype(np.float64) @ MATRIX
    np.testing.assert_allclose(result, product @ np.linalg.inv(product), atol=1e-3)
    assert (coverage.pct, coverage.provider, coverage.opaque_nodes) == (100.0, OPENVINO, 0)
    assert sum(row.quantized_nodes for row in coverage.by_op) == 2


def test_a_graph_that_falls_back_whole_is_refused(tmp_path: Path, feeds: Feeds) -> None:
    """Without a product in it, it is not OpenVINO that is judged; the node is named, and a backend that has it."""
    with pytest.raises(BuildError, match=f"nothing of alone.onnx runs on {OPENVINO}") as caught:
        opened(alone(tmp_path / "alone.onnx"))
    assert "lonely (Inverse)" in str(caught.value)
    assert caught.value.fix == "use a backend that has these operators: backend='ort' has them on the CPU"
    spec = EngineSpec("ort", "fp32", None, Model.from_onnx(tmp_path / "alone.onnx"))
    with get_backend("ort").open(spec, tmp_path) as engine:
        np.testing.assert_allclose(engine.run(feeds)["y"], np.linalg.inv(feeds["x"].astype(np.float64)), rtol=1e-3)


def test_a_model_that_arrives_quantized(tmp_path: Path) -> None:
    """Q/DQ pairs of another tool run in OpenVINO's integer kernels: of 2368 MACs all are int8."""
    from pytest_quant.backends.ort import OrtBackend
    from pytest_quant.testing.conformance.examples import build

    example = dense()
    model = example.write(tmp_path)
    folder = build(OrtBackend(), EngineSpec("ort", "int8", "static", model), example, tmp_path)
    arrived = Model.from_onnx(folder / "model.onnx")
    spec = EngineSpec("ort-openvino", "int8", "given", model, quantized=arrived)
    backend = OrtOpenVinoBackend()
    backend.check(spec)
    target = tmp_path / "in place"
    target.mkdir()
    backend.build(spec, None, target)
    with backend.open(spec, target) as engine:
        result = engine.coverage(example.feeds(1, 0))
    assert result.pct == 100.0
    assert sum(row.quantized_macs or 0 for row in result.by_op) == 64 * 32 + 32 * 10


def test_threads_and_float32_reach_the_provider(tmp_path: Path) -> None:
    """The session hands them on as OpenVINO's own settings, for OpenVINO takes no others from ONNX Runtime."""
    model = dense().write(tmp_path)
    assert model.path is not None
    session, _ = open_session(model.path, make_provider(threads=2), threads=2)
    settings = session.get_provider_options()[OPENVINO]["load_config"]
    assert '"INFERENCE_PRECISION_HINT": "f32"' in settings
    assert '"INFERENCE_NUM_THREADS": "2"' in settings


@pytest.mark.parametrize("order", [("openvino", "onnxruntime"), ("onnxruntime", "openvino")])
def test_beside_openvino_itself(tmp_path: Path, order: tuple[str, str]) -> None:
    """The plugin has its own copy of OpenVINO; the two live in one process, whichever comes first."""
    model = dense().write(tmp_path)
    code = f"""
import importlib
for name in {order!r}:
    importlib.import_module(name)
import numpy as np, openvino, pathlib
from tests.integration.ort_provider_traps.any_cpu import offer_any_cpu
from pytest_quant.backends.ort.openvino import make_provider
from pytest_quant.backends.ort.session import open_session
feeds = {{"x": np.ones((2, 64), np.float32)}}
offer_any_cpu()
session, _ = open_session(pathlib.Path({str(model.path)!r}), make_provider(1), threads=1)
ours = session.run(None, feeds)[0]
theirs = openvino.Core().compile_model({str(model.path)!r}, "CPU", {{"INFERENCE_PRECISION_HINT": "f32"}})(feeds)[0]
assert np.allclose(ours, theirs, atol=1e-5), (ours, theirs)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])
