"""Accuracy is evaluated on all cores of the process, and whoever times an engine gets the threads of the mark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pytest_quant.backends import get_backend
from pytest_quant.cache import Cache
from pytest_quant.measure import build
from pytest_quant.measure.pipeline import Measurement
from pytest_quant.spec import Check, Dataset, EngineSpec, Limits, Model
from tests.support.measuring import numbers, quiet_session
from tests.support.models import parsed, select_first

CORES = 3


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Threads of the engines that are opened to be evaluated, or again after that; this process has three cores."""
    threads: list[int | None] = []
    open_built = build.BuiltEngine.open

    def opening(*args: Any) -> Any:
        engine = open_built(*args)
        threads.append(engine.threads)
        return engine

    monkeypatch.setattr(build, "usable_cores", lambda: CORES)
    monkeypatch.setattr(build.BuiltEngine, "open", opening)
    return threads


def measured(folder: Path, backend: str, model: Model, **options: object) -> Measurement:
    """Measure a check without latency."""
    given = tuple(sorted(options.items()))
    samples = numbers(40, 8)
    check = Check(
        "check",
        "check",
        EngineSpec(backend, "int8", "static", model, options=given),
        EngineSpec(backend, "fp32", None, model, options=given),
        Dataset.from_arrays(samples, samples[:, :4].argmax(axis=1), calibration=numbers(8, 8, seed=1)),
        Limits(max_drop=5.0),
        latency=None,
        latency_off="not asked for",
    )
    return quiet_session(folder).measure_engines(check)


def kept_by(folder: Path) -> list[str]:
    """Return the threads that outputs of the reference are kept by."""
    return [entry.ingredients["evaluation threads"] for entry in Cache(folder).entries() if entry.kind == "reference"]


@pytest.mark.parametrize(("given", "timed"), [({}, 1), ({"threads": 2}, 2), ({"threads": CORES}, CORES)])
@pytest.mark.parametrize("backend", ["ort", "openvino"])
def test_all_cores_evaluate_and_the_threads_of_the_mark_are_timed(
    backend: str, given: dict[str, object], timed: int, tmp_path: Path, opened: list[int | None]
) -> None:
    """Both engines open with the threads of the mark when a test runs them; only the candidate may still be open."""
    path = select_first(tmp_path / "model.onnx")
    quant = measured(tmp_path / "cache", backend, Model.from_onnx(path), **given)
    assert (quant.engine.threads, quant.reference.threads, quant.threads) == (timed, timed, timed)
    for engine in (quant.engine, quant.reference):
        engine.run({engine.signature.inputs[0].name: numbers(2, 8)})
    quant.close()
    assert opened == [CORES, CORES, *([CORES] if timed == CORES else [timed, timed])]
    assert kept_by(tmp_path / "cache") == [str(CORES)]


def test_torch_evaluates_on_all_cores_too(tmp_path: Path, opened: list[int | None]) -> None:
    """Its threads are those of the process, which each engine sets before it runs."""
    module = torch.nn.Linear(8, 4, bias=False)
    module.weight.data = torch.eye(4, 8)
    quant = measured(tmp_path / "cache", "torch", Model.from_torch(module, (torch.zeros(2, 8),)), compiled=False)
    assert quant.threads == 1
    for engine in (quant.engine, quant.reference):
        engine.run({engine.signature.inputs[0].name: numbers(2, 8)})
    assert torch.get_num_threads() == 1
    quant.close()
    assert opened == [CORES, CORES, 1, 1]
    assert kept_by(tmp_path / "cache") == [str(CORES)]


@pytest.mark.parametrize("backend", ["ort", "openvino"])
def test_threads_change_outputs_by_the_order_of_sums_at_most(backend: str, tmp_path: Path) -> None:
    """A float product of 64 x 300 by 300 x 40 with one, two and five threads."""
    weight = numbers(300, 40, seed=2)
    path = parsed(tmp_path / "model.onnx", "(float[n, 300] x) => (float[n, 40] y) { y = MatMul(x, w) }", w=weight)
    outputs = []
    for threads in (1, 2, 5):
        spec = EngineSpec(backend, "fp32", None, Model.from_onnx(path), options=(("threads", threads),))
        folder = tmp_path / str(threads)
        folder.mkdir()
        get_backend(backend).build(spec, None, folder)
        with get_backend(backend).open(spec, folder) as engine:
            assert engine.threads == threads
            outputs.append(engine.run({"x": numbers(64, 300)})["y"])
    exact = numbers(64, 300).astype(np.float64) @ weight
    for each in outputs:
        np.testing.assert_allclose(each, exact, rtol=0, atol=1e-5 * np.abs(exact).max())
