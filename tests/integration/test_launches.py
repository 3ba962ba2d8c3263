"""Fresh processes open what real runtimes built, from the cache alone, and time it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant import Dataset, Model
from pytest_quant.backends import get_backend
from pytest_quant.cache import Cache
from pytest_quant.measure.engines import Tools, build_side, read_data, usable_backend
from pytest_quant.measure.launch import Launch, Launchable
from pytest_quant.measure.sessions import Subject
from pytest_quant.spec import EngineSpec, LatencyPlan
from tests.support.models import select_first

PLAN = LatencyPlan(max_s=0.5, max_warmup_s=0.05)
X = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)


def built(spec: EngineSpec, tools: Tools) -> Subject:
    """Return a built engine and one batch for it."""
    data = read_data(Dataset.from_arrays(X, X[:, :4].argmax(axis=1), calibration=16), spec, tools)
    return Subject(spec, get_backend(spec.backend), build_side(spec, usable_backend(spec), data, tools), {"x": X[:2]})


def launched(backend: str, model: Model, folder: Path, scheme: str = "static", **options: Any) -> None:
    """Time an INT8 engine of `model` in a fresh process, and see that it ran."""
    tools = Tools(Cache(folder / "cache"), pytest.fail, lambda _: nullcontext())
    given = tuple(sorted(options.items()))
    reference = built(EngineSpec(backend, "fp32", None, model, options=given), tools)
    candidate = built(EngineSpec(backend, "int8", scheme, model, options=given), tools)
    Launchable.of(reference, candidate, PLAN).save(folder / "check")
    with Launch(folder / "check") as launch:
        found = launch.measure(PLAN)
    assert found.rounds >= PLAN.min_rounds
    assert found.speedup > 0.0


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
