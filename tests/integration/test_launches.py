"""Fresh processes open what real runtimes built, from the cache alone, and time it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant import Dataset, Model
from pytest_quant.measure.build import Tools, build_engine
from pytest_quant.measure.engines import TimingSubject, read_data, usable_backend
from pytest_quant.measure.timing_process import TimingJob, TimingProcess
from pytest_quant.spec import EngineSpec, LatencyPlan
from tests.integration.projects import TEST, run_project_apart, write_project
from tests.support.measuring import quiet_tools
from tests.support.models import select_first

PLAN = LatencyPlan(max_s=0.5, max_warmup_s=0.05)
X = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)


def built(spec: EngineSpec, tools: Tools) -> TimingSubject:
    """Return a built engine and one batch for it."""
    data = read_data(Dataset.from_arrays(X, X[:, :4].argmax(axis=1), calibration=16), spec, tools)
    return TimingSubject(build_engine(spec, usable_backend(spec), data, tools), {"x": X[:2]})


def launched(backend: str, model: Model, folder: Path, scheme: str = "static", **options: Any) -> None:
    """Time an INT8 engine of `model` in a fresh process, and see that it ran."""
    tools = quiet_tools(folder)
    given = tuple(sorted(options.items()))
    reference = built(EngineSpec(backend, "fp32", None, model, options=given), tools)
    candidate = built(EngineSpec(backend, "int8", scheme, model, options=given), tools)
    TimingJob(reference, candidate, PLAN).save(folder / "check")
    with TimingProcess(folder / "check") as launch:
        result = launch.measure(PLAN)
    assert result.rounds >= 1
    assert result.speedup > 0.0


@pytest.mark.parametrize("backend", ["ort", "openvino"])
def test_a_file(backend: str, tmp_path: Path) -> None:
    """An ONNX model, with an option of its own."""
    pytest.importorskip({"ort": "onnxruntime"}.get(backend, backend))
    launched(backend, Model.from_onnx(select_first(tmp_path / "model.onnx")), tmp_path, threads=1)


@pytest.mark.parametrize("scheme", ["static", "weight-only"])
def test_a_module_of_this_process(scheme: str, tmp_path: Path) -> None:
    """Its class is in a function, where nothing can find it; the traced programs are all that is needed."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchao")

    class OnlyHere(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 4)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.linear(x))

    launched("torch", Model.from_torch(OnlyHere(), (torch.zeros(2, 8),)), tmp_path, scheme, compiled=False)


def discounted(check: dict[str, Any]) -> int:
    """Return how many of two further launches a busy machine made worthless, or kept from being made."""
    latency = check["latency"]
    return 2 if latency["reasons"] else sum("does not count" in note for note in latency["notes"])


def test_a_run_launches_as_often_as_it_is_told(pytester: pytest.Pytester) -> None:
    """Every check, with a limit or without; the verdict is over all launches, and the record has each."""
    select_first(pytester.path / "model.onnx")
    write_project(pytester, mark="max_drop=50.0")
    pytester.makepyfile(test_limit=TEST.format(mark="max_drop=50.0, min_speedup=0.001", body="pass"))
    timing = ("--quant-with-latency", "--quant-max-time=0.5", "--quant-launches=3")
    _, checks = run_project_apart(pytester, *timing, "--quant-no-history", "-n", "2")
    for check in checks:
        assert len(check["latency"]["launches"]) + discounted(check) == 2
    limited, _ = checks
    (verdict,) = (each for each in limited["verdicts"] if each["limit"] == "min_speedup")
    launches = 1 + len(limited["latency"]["launches"])
    assert f"over {launches} launches reaches x0.001" in verdict["reason"] or launches == 1
