"""The first part of an engine whose kernels differ from float: kept with its inputs, and run again without the plugin.

A wrong kernel stands behind ONNX Runtime's own here, but for one test on processors whose kernels saturate.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from pytest_quant.backends import Feeds, Outputs, get_backend
from pytest_quant.backends.ort import kernel_part
from pytest_quant.backends.ort.engine import OrtEngine
from pytest_quant.backends.ort.session import open_seen
from pytest_quant.environment.machine import adds_in_16_bits, isa_tier
from pytest_quant.spec import EngineSpec, Model
from tests.integration.projects import output, run_marks
from tests.integration.test_advice import CONFTEST, ORT, one_large_channel, two_layers
from tests.integration.test_switches import NETWORKS

onnxruntime = pytest.importorskip("onnxruntime")


class FakeKernels:
    """A session whose last product is wrong: it gives half of everything."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def run(self, *args: Any) -> list[Any]:
        """Run the real session."""
        return [0.5 * each for each in self._session.run(*args)]


def _open_with_a_wrong_product(name: str) -> Any:
    def fake(model: onnx.ModelProto, names: Iterable[str], path: Path, *, simulates: bool = False) -> Any:
        session = open_seen(model, names, path, simulates=simulates)
        is_wrong = not simulates and any(node.name == name for node in model.graph.node)
        return FakeKernels(session) if is_wrong else session

    return fake


def _built(network: str, folder: Path, **options: Any) -> tuple[EngineSpec, Path, Feeds]:
    path, feeds = NETWORKS[network](folder)
    spec = EngineSpec("ort", "int8", "static", Model.from_onnx(path), options=tuple(options.items()))
    ranges, engine = folder / "ranges", folder / "engine"
    for each in (ranges, engine, folder / "kept"):
        each.mkdir()
    backend = get_backend("ort")
    backend.calibrate(spec, lambda: iter([feeds]), ranges)
    backend.build(spec, ranges, engine)
    return spec, engine, feeds


@pytest.mark.parametrize("network", NETWORKS)
def test_no_part_of_a_sound_engine_is_kept(network: str, tmp_path: Path) -> None:
    """Its kernels differ from float by less than rounding does."""
    spec, engine, feeds = _built(network, tmp_path)
    assert kernel_part.keep_part(spec, engine, feeds, tmp_path / "kept") == ""
    assert not [*(tmp_path / "kept").iterdir()]


def test_the_part_of_a_fake_wrong_kernel_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has that product alone, between rounded tensors, and its script runs both ways of ONNX Runtime."""
    spec, engine, feeds = _built("pictures", tmp_path)
    monkeypatch.setattr(kernel_part, "open_seen", _open_with_a_wrong_product("conv_c"))
    kept = tmp_path / "kept"
    assert kernel_part.keep_part(spec, engine, feeds, kept) == "c"
    part = onnx.load(kept / "part.onnx")
    products = [node.name for node in part.graph.node if node.op_type == "Conv"]
    assert (products, [each.name for each in part.graph.input]) == (["conv_c"], ["b"])
    assert part.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT
    assert np.load(kept / "inputs.npz")["arr_0"].shape == (32, 8, 16, 16)
    ran = subprocess.run([sys.executable, kept / "replay.py"], capture_output=True, text=True, check=True)
    head, _, sqnr_db = ran.stdout.rpartition(": ")
    assert head == f"onnxruntime {onnxruntime.__version__} SQNR in dB"
    # Where only the fake is wrong, both ways of the real runtime differ by rounding at most.
    assert float(sqnr_db) > 30.0


@pytest.mark.skipif(not adds_in_16_bits(isa_tier()), reason="needs a processor whose int8 kernels saturate")
def test_the_part_of_a_kernel_that_saturates_is_kept(tmp_path: Path) -> None:
    """Weights of eight bits and of one sign add up to more than 16 bits hold."""
    graph = NETWORKS["tokens"](tmp_path)[0]
    model = onnx.load(graph)
    for tensor in model.graph.initializer:
        weights = np.abs(onnx.numpy_helper.to_array(tensor)) * 0.1 + 1.0
        tensor.CopyFrom(onnx.numpy_helper.from_array(weights, tensor.name))
    onnx.save(model, graph)
    feeds = {"x": np.abs(np.random.default_rng(3).normal(size=(32, 6, 24))).astype(np.float32)}
    spec = EngineSpec("ort", "int8", "static", Model.from_onnx(graph), options=(("reduce_range", False),))
    for each in ("ranges", "engine", "kept"):
        (tmp_path / each).mkdir()
    get_backend("ort").calibrate(spec, lambda: iter([feeds]), tmp_path / "ranges")
    get_backend("ort").build(spec, tmp_path / "ranges", tmp_path / "engine")
    assert kernel_part.keep_part(spec, tmp_path / "engine", feeds, tmp_path / "kept") == "a"


def test_a_failure_names_the_product_of_a_fake_wrong_kernel(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the line that runs the part again; where no part alone is wrong, only the stage."""
    pytester.makeconftest(CONFTEST)
    one_large_channel(Path("large.onnx"))
    two_layers(Path("plain.onnx"))
    run, mark = OrtEngine._run, f"{ORT['outlier']}, batch_size=1".replace("with_an_outlier", "flat")

    def wrong(engine: OrtEngine, feeds: Feeds) -> Outputs:
        half = 0.5 if engine.spec.precision == "int8" else 1.0
        return {name: half * array for name, array in run(engine, feeds).items()}

    monkeypatch.setattr(OrtEngine, "_run", wrong)
    whole = run_marks(pytester, {"whole": mark}, "--quant-diagnose-time=60", "--quant-cache=one")[1]["whole"]["cause"]
    assert (whole["stage"], whole["nodes"], "replay.py" in whole["text"]) == ("kernels", [], False)
    monkeypatch.setattr(kernel_part, "open_seen", _open_with_a_wrong_product("fc2"))
    result, checks = run_marks(pytester, {"part": mark}, "--quant-diagnose-time=60", "--quant-cache=other")
    cause = checks["part"]["cause"]
    assert (cause["stage"], cause["nodes"]) == ("kernels", ["fc2"]), output(result)
    assert Path(cause["text"].rpartition(": python ")[2]).is_file()
