"""Whole checks of ``trt`` on a fake GPU: what goes wrong on it is one check's error, and the session goes on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends import Availability
from pytest_quant.backends.onnx_files import read_graph
from pytest_quant.backends.trt.build import LAYERS_FILE, LOG_FILE, PLAN_FILE, BuildRequest
from pytest_quant.check_runner import CheckRunner
from pytest_quant.errors import BuildError
from pytest_quant.record import Record
from pytest_quant.result import Status
from pytest_quant.spec import Check, Dataset, EngineSpec, LatencyPlan, Limits, Model
from tests.integration.trt_traps.networks import session_in
from tests.support.fake_tensorrt import COLUMNS, MAX_BATCH, RUN_MS, HostMemory, inspection, make
from tests.support.models import parsed


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> HostMemory:
    """A fake GPU with a fake TensorRT 10 on it."""
    result = HostMemory()
    monkeypatch.setitem(sys.modules, "tensorrt", make(result))
    here = Availability(True, version="10.13.0", device="cuda:0 fake (SM89)")
    monkeypatch.setattr("pytest_quant.backends.trt.find_native", lambda: here)
    monkeypatch.setattr("pytest_quant.backends.trt.engine.open_device", lambda **_: result)
    return result


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """How the engines behave that are built from now on; an INT8 one computes its product in INT8."""
    behaviour: dict[str, Any] = {}

    def run_builder(request: BuildRequest, _name: str) -> None:
        quantized = any(node.op_type == "QuantizeLinear" for node in read_graph(request.model).graph.node)
        spoilt = behaviour if quantized else {}
        folder = request.model.parent
        plan = {"inspection": inspection(10, "int8" if quantized else "fp32"), **spoilt}
        (folder / PLAN_FILE).write_bytes(json.dumps(plan).encode())
        (folder / LOG_FILE).touch()
        (folder / LAYERS_FILE).write_text("[]")

    monkeypatch.setattr("pytest_quant.backends.trt.build.run_builder", run_builder)
    return behaviour


def check_of(folder: Path, backend: str = "trt", seed: int = 0) -> Check:
    """A check of the computation that the fake does: ``y = 2 x + ids`` and ``next = ids + 1``."""
    # An Add in the place of the Sub would be fused with the product under another name.
    graph = f"""(float[n, {COLUMNS}] x, int64[n] ids) => (float[n, {COLUMNS}] y, int64[n] next)
        <int64[1] one = {{1}}, int64[1] axis = {{1}}> {{
        [product] doubled = MatMul(x, two) real = Cast<to = 1>(ids) negative = Neg(real)
        column = Unsqueeze(negative, axis) y = Sub(doubled, column) next = Add(ids, one)
    }}"""
    model = Model.from_onnx(parsed(folder / "fixed.onnx", graph, two=2 * np.eye(COLUMNS, dtype=np.float32)))
    rng = np.random.default_rng(seed)
    data = {"x": rng.normal(size=(20, COLUMNS)).astype(np.float32), "ids": rng.integers(0, 50, 20)}
    calibration = {"x": rng.normal(size=(10, COLUMNS)).astype(np.float32), "ids": rng.integers(0, 50, 10)}
    return Check(
        "t.py::test",
        "t.py::test",
        EngineSpec(backend, "int8", "static", model),
        EngineSpec(backend, "fp32", None, model),
        Dataset.from_arrays(data, calibration=calibration),
        Limits(min_cosine=0.9),
        latency=LatencyPlan(batch_size=2),
        batch_size=MAX_BATCH,
    )


def measured(session: CheckRunner, check: Check) -> Record:
    """Measure and judge one check."""
    result = session.measure_engines(check)
    try:
        return session.judge(result).record
    finally:
        result.close()


def test_fake_gpu_runs_a_whole_check(device: HostMemory, builds: dict[str, Any], tmp_path: Path) -> None:
    """Accuracy, coverage from the inspector, latency by events and copies apart; nothing is left on the device."""
    with session_in(tmp_path) as session:
        record = measured(session, check_of(tmp_path))
    assert record.coverage is not None
    assert record.coverage.pct == 100.0
    assert record.latency is not None
    assert record.latency.clock == "device"
    assert record.latency.reference_p50_ms == record.latency.candidate_p50_ms == RUN_MS
    assert device.cuda.held() == {}
    assert device.depth == 0


def test_fake_gpu_that_the_process_lost_is_told_by_every_check_on_it(
    device: HostMemory, builds: dict[str, Any], tmp_path: Path
) -> None:
    """With the error that it met first and what to do; checks on the processor run on."""
    with session_in(tmp_path) as session:
        builds["crashes"] = True
        for seed in (1, 2):
            with pytest.raises(BuildError, match="no longer use the GPU") as caught:
                measured(session, check_of(tmp_path, seed=seed))
            assert "cudaErrorIllegalAddress" in str(caught.value)
            builds.clear()
        assert measured(session, check_of(tmp_path, backend="ort", seed=3)).status is Status.PASS
    assert device.depth == 0
