"""Caches are keyed by content: each ingredient, changed alone, rebuilds the engine and says why."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import get_backend
from pytest_quant.backends.ort import build as module
from pytest_quant.cache import Entry
from pytest_quant.data import open_data
from pytest_quant.measure.build import BuiltEngine, build_engine
from pytest_quant.measure.outputs import record_outputs
from pytest_quant.spec import Calibration, Dataset, EngineSpec, Model
from tests.support import models
from tests.support.measuring import leading, quiet_tools

SPECS: dict[str, tuple[Callable[[EngineSpec], EngineSpec], set[str]]] = {
    "excluded node": (lambda spec: replace(spec, exclude=("negative",)), {"exclude"}),
    "threads": (lambda spec: replace(spec, options=(("threads", 2),)), {"threads"}),
    "per_channel": (
        lambda spec: replace(spec, options=(("per_channel", False),)),
        {"per_channel", "calibration upgraded opset"},
    ),
    "reduce_range": (lambda spec: _other_range(spec), {"reduce_range"}),
    "activation_type": (lambda spec: replace(spec, options=(("activation_type", "int8"),)), {"activation_type"}),
    "symmetric": (lambda spec: replace(spec, options=(("symmetric", True),)), {"symmetric"}),
    "extra": (lambda spec: replace(spec, options=(("extra", {"DedicatedQDQPair": True}),)), {"extra"}),
    "method": (lambda spec: replace(spec, calibration=Calibration("entropy")), {"calibration method"}),
    "samples": (lambda spec: replace(spec, calibration=Calibration(samples=7)), {"calibration samples"}),
    "calibration batches": (
        lambda spec: replace(spec, calibration=Calibration(batch_size=5)),
        {"calibration batch_size"},
    ),
}


def _other_range(spec: EngineSpec) -> EngineSpec:
    default = get_backend("ort").ingredients(spec)["reduce_range"]
    return replace(spec, options=(("reduce_range", default != "true"),))


class Workbench:
    """One model, its data and a cache, all on disk."""

    def __init__(self, folder: Path) -> None:
        self.model = models.select_first(folder / "model.onnx", outputs=2)
        self.tools = quiet_tools(folder)
        self.inputs, self.labels = models.samples(60)
        self.spec = EngineSpec("ort", "int8", "static", Model.from_onnx(self.model))

    def build(self, spec: EngineSpec | None = None, calibration: np.ndarray | None = None) -> BuiltEngine:
        """Build through the cache; the evaluation set never decides an engine."""
        backend = get_backend("ort")
        samples = self.inputs[40:] if calibration is None else calibration
        dataset = Dataset.from_arrays(self.inputs[:40], self.labels[:40], samples)
        data = open_data(dataset, backend.signature(self.spec.model))
        return build_engine(spec or self.spec, backend, data, self.tools)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """A workbench whose engine has been built once."""
    workbench = Workbench(tmp_path)
    assert workbench.build().status == "built"
    assert workbench.build().status == "hit"
    return workbench


def changed(built: BuiltEngine | Entry) -> set[str]:
    """Return the names of the ingredients whose change is the reason why something was built."""
    assert built.status == "built"
    return {re.match(r"(.+?) (?:changed|added|removed) \(", part)[1] for part in built.reason.split("; ")}  # type: ignore[index]


@pytest.mark.parametrize("case", SPECS)
def test_each_setting_rebuilds_alone(bench: Workbench, case: str) -> None:
    """The reason names exactly the setting that was changed; changed back, the first engine is still there."""
    change, names = SPECS[case]
    assert changed(bench.build(change(bench.spec))) == names
    assert bench.build().status == "hit"


def test_weights_under_the_same_name_rebuild(bench: Workbench) -> None:
    """A retrained model is another model, whatever its file is called."""
    models.select_first(bench.model, scale=20.0, outputs=2)
    assert changed(bench.build()) == {"model", "calibration model"}


def test_weights_in_an_external_file_count(tmp_path: Path) -> None:
    """The graph may stay the same to the byte while its weights change beside it."""
    bench = Workbench(tmp_path)
    models.with_external_data(bench.model, "weights.bin")
    weight = np.eye(models.FEATURES, models.CLASSES, dtype=np.float32)
    (tmp_path / "weights.bin").write_bytes(weight.tobytes())
    assert bench.build().status == "built"
    (tmp_path / "weights.bin").write_bytes((2 * weight).tobytes())
    assert changed(bench.build()) == {"model data weights.bin", "calibration model data weights.bin"}


def test_other_calibration_samples_rebuild(bench: Workbench) -> None:
    """One value in one calibration sample is enough."""
    samples = bench.inputs[40:].copy()
    samples[3, 2] += 1.0
    assert changed(bench.build(calibration=samples)) == {"calibration data"}


def test_a_quantized_model_counts_by_content(bench: Workbench, tmp_path: Path) -> None:
    """The model that arrives quantized is an ingredient beside the float one."""
    ready = models.select_first(tmp_path / "ready.onnx", scale=3.0)
    spec = replace(bench.spec, scheme="given", quantized=Model.from_onnx(ready))
    bench.build(spec)
    models.select_first(ready, scale=4.0)
    assert changed(bench.build(spec)) == {"quantized model"}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("runtime_version", {"onnxruntime"}),
        ("RECIPE_VERSION", {"recipe"}),
        ("version", {"onnx", "numpy"}),
    ],
)
def test_libraries_machine_and_recipe_rebuild(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, name: str, changes: set[str]
) -> None:
    """An engine of another onnxruntime, onnx, numpy or recipe is not reused."""
    monkeypatch.setattr(module, name, "another" if name == "RECIPE_VERSION" else lambda *_: "another")
    assert changed(bench.build()) == changes | {f"calibration {each}" for each in changes}


def test_an_instruction_set_rebuilds_the_engine_and_not_its_calibration(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machines of several kinds share the ranges of activations, and each kind has engines of its own."""
    bench.build()
    monkeypatch.setattr(module, "isa_tier", lambda: "another")
    assert changed(bench.build()) == {"instruction set"}
    assert [entry.kind for entry in bench.tools.cache.entries()].count("calibration") == 1


@pytest.mark.parametrize("what", ["label", "input", "batch size"])
def test_reference_outputs_follow_the_evaluation_set(bench: Workbench, what: str) -> None:
    """A changed label, input or batch size evaluates the reference again, and nothing else does."""
    backend = get_backend("ort")
    spec = replace(bench.spec, precision="fp32", scheme=None)
    engine = backend.open(spec, bench.build(spec).folder)
    outcome = []
    for changes in (False, False, True):
        inputs, labels = bench.inputs[:40].copy(), bench.labels[:40].copy()
        labels[5] = (labels[5] + 1) % 4 if changes and what == "label" else labels[5]
        inputs[5, 5] += 1.0 if changes and what == "input" else 0.0
        data = open_data(Dataset.from_arrays(inputs, labels), engine.signature)
        batch_size = 16 if changes and what == "batch size" else 32
        outcome.append(record_outputs(leading(engine, batch_size), data, bench.tools.cache, backend.ingredients(spec)))
    engine.close()
    assert [recorded.status for recorded in outcome] == ["built", "hit", "built"]
    assert changed(outcome[2]) == {"evaluation batch size" if what == "batch size" else "evaluation data"}
