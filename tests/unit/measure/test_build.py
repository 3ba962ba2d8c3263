"""Engines built through the cache: what decides them, what they cost, and what they are calibrated on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_quant.backends import Offer
from pytest_quant.data import Data
from pytest_quant.errors import BuildError, DataError
from pytest_quant.measure import build as building
from pytest_quant.measure.build import BuiltEngine, build_apart, build_engine, export_spec
from pytest_quant.spec import Calibration, EngineSpec, Model
from tests.support.measuring import QuietSteps, quiet_tools
from tests.unit.measure.played import PlayedBackend, data_of, inputs, numbers

FREE = inputs(x=(None, 2))
STATIC = EngineSpec("played", "int8", "static", Model("net"))
WEIGHTS = replace(STATIC, scheme="weight-only")


class Bench:
    """A backend, its clock, data with ten calibration samples, and the tools of a session."""

    def __init__(self, folder: Path) -> None:
        self.backend = PlayedBackend(lambda _precision, feeds: {"y": feeds["x"]}, FREE)
        self.data: Data | None = data_of(numbers(30), FREE, calibration=numbers(10) + 1000)
        self.steps = QuietSteps()
        self.tools = quiet_tools(folder, self.steps)

    def build(self, spec: EngineSpec = STATIC) -> BuiltEngine:
        """Build through the cache, and forget what was called before."""
        self.backend.calls.clear()
        built = build_engine(spec, self.backend, self.data, self.tools)
        self.backend.calls.remove(("check", spec.id))
        return built


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench by whose clock everything is timed."""
    new_bench = Bench(tmp_path)
    monkeypatch.setattr(building, "REAL", SimpleNamespace(perf_counter=lambda: new_bench.backend.now_s))
    return new_bench


def test_an_engine_is_calibrated_built_and_kept(bench: Bench) -> None:
    """Five seconds and two; the second time it is there, with what it cost."""
    first = bench.build()
    assert bench.backend.calls == [("calibrate", [1] * 10), ("build", "played-int8-static")]
    assert (first.status, first.build_s, first.calibration_s) == ("built", 7.0, 5.0)
    assert first.reason == "first build of played-int8-static of net"
    assert (first.folder / "engine").read_text("utf-8") == "played-int8-static"
    assert bench.steps.texts == [
        "reading what played-int8-static of net is built from",
        "building played-int8-static of net",
        "calibrating played-int8-static of net on 10 samples (the first one also loads the quantizer)",
    ]
    again = bench.build()
    assert bench.backend.calls == []
    assert (again.status, again.build_s, again.calibration_s) == ("hit", 7.0, 5.0)
    assert (again.key, again.folder) == (first.key, first.folder)
    assert again.build_memory_mb == first.build_memory_mb


def test_a_scheme_without_ranges_needs_no_samples(bench: Bench) -> None:
    """None are read, and no calibration is told."""
    bench.data = None
    result = bench.build(WEIGHTS)
    assert bench.backend.calls == [("build", None)]
    assert (result.build_s, result.calibration_s) == (2.0, None)


@pytest.mark.parametrize("data", [None, data_of(numbers(30), FREE)])
def test_a_scheme_with_ranges_does(bench: Bench, data: Data | None) -> None:
    """Without any, nothing is built."""
    bench.data = data
    with pytest.raises(DataError) as raised:
        bench.build()
    assert str(raised.value) == (
        "played-int8-static of net has no calibration data\n"
        "  allowed: static quantization finds the ranges of activations on samples apart from the evaluation\n"
        "  next: give calibration=100 to Dataset.from_arrays or from_loader; scheme='dynamic', where a backend has it, "
        "needs none"
    )
    assert bench.backend.calls == [("check", "played-int8-static")]


@pytest.mark.parametrize(
    ("calibration", "sizes"),
    [
        (Calibration(samples=4), [1] * 4),
        (Calibration(batch_size=4), [4, 4, 2]),
        (Calibration(samples=7, batch_size=4), [4, 3]),
        (Calibration(samples=99), [1] * 10),
    ],
)
def test_so_many_samples_as_asked_for_are_calibrated_on(
    bench: Bench, calibration: Calibration, sizes: list[int]
) -> None:
    """In batches of the size asked for, and never more than there are."""
    bench.build(replace(STATIC, calibration=calibration))
    assert bench.backend.calls[0] == ("calibrate", sizes)
    assert bench.steps.texts[2].startswith(f"calibrating played-int8-static of net on {sum(sizes)} samples")


def test_ranges_that_are_there_cost_what_they_did(bench: Bench) -> None:
    """Another engine by the same ranges: two seconds now, and seven had it been built from nothing."""
    bench.build()
    result = bench.build(replace(STATIC, options=(("per_channel", True),)))
    assert bench.backend.calls == [("build", "played-int8-static")]
    assert (result.status, result.build_s, result.calibration_s) == ("built", 7.0, 5.0)


def test_other_calibration_data_is_another_engine(bench: Bench) -> None:
    """And so is another state of the model; the evaluation data is not."""
    first = bench.build()
    bench.data = data_of(numbers(20), FREE, calibration=numbers(10) + 1000)
    assert bench.build().key == first.key
    bench.data = data_of(numbers(30), FREE, calibration=numbers(10) + 2000)
    other = bench.build()
    assert other.key != first.key
    assert "calibration data changed" in other.reason
    stated = bench.build(replace(STATIC, model=Model("net", state=(("y", "x"),))))
    assert stated.key not in (first.key, other.key)
    assert 'calibration state changed (nothing -> [["y", "x"]])' in stated.reason
    weights = bench.build(WEIGHTS)
    bench.data = None
    assert bench.build(WEIGHTS).key == weights.key


@pytest.mark.parametrize("method", ["calibrate", "build"])
def test_what_the_runtime_raises_says_what_was_done(bench: Bench, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message of ours names the step and the first line."""

    def refuse(*_: Any) -> None:
        raise ValueError("no kernel\nfor it")

    monkeypatch.setattr(bench.backend, method, refuse)
    with pytest.raises(BuildError) as raised:
        bench.build()
    doing = {"build": "building played-int8-static of net", "calibrate": bench.steps.texts[-1].partition(" (")[0]}[
        method
    ]
    assert (raised.value.what, raised.value.value) == (f"{doing} failed", "ValueError: no kernel")


def test_a_trial_is_built_apart(bench: Bench, tmp_path: Path) -> None:
    """By the ranges of the engine that it is like, where they are the same; else by its own, in its own folder."""
    like = bench.build()
    for spec, calls in (
        (replace(STATIC, exclude=("a",)), [("build", "played-int8-static")]),
        (
            replace(STATIC, calibration=Calibration(samples=4, batch_size=3)),
            [("calibrate", [3, 1]), ("build", "played-int8-static")],
        ),
        (WEIGHTS, [("build", None)]),
    ):
        bench.backend.calls.clear()
        work = tmp_path / spec.id / str(len(spec.exclude)) / str(spec.calibration.samples)
        work.mkdir(parents=True)
        assert bench.data is not None
        built = build_apart(spec, like, bench.data, bench.tools, work)
        assert bench.backend.calls == calls
        assert built.spec == spec
        assert (built.folder / "engine").read_text("utf-8") == spec.id
        assert built.folder.parent == work
        assert (work / "ranges").exists() is (calls[0][0] == "calibrate")


def test_only_torch_modules_are_exported(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file stays what it is; a backend that takes modules gets them."""
    monkeypatch.setattr(building, "get_backend", lambda name: {"played": bench.backend}[name])
    assert export_spec(STATIC, bench.tools) == STATIC
    quantized = replace(STATIC, quantized=Model("other"))
    assert export_spec(quantized, bench.tools) == quantized
    module = replace(STATIC, model=Model("net", module=cast("Any", "a module")))
    monkeypatch.setattr(bench.backend, "offer", Offer({}, reads="module"))
    assert export_spec(module, bench.tools) is module
    assert bench.steps.texts == []


def test_a_model_is_known_by_its_files(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """By all of them together, and by nothing else that decides the engine."""

    def built(**more: str) -> dict[str, str]:
        result = {"model": "a", "model data w.bin": "b", "recipe": "1"} | more
        monkeypatch.setattr(bench.backend, "ingredients", lambda _: dict(result))
        return dict(bench.build(WEIGHTS).models)

    first = built()
    assert set(first) == {"model"}
    assert built(recipe="2", modeled="x") == first
    assert built(model="c") != first
    assert built(**{"model data w.bin": "c"}) != first
    both = built(**{"quantized model": "q"})
    assert both["model"] == first["model"]
    assert set(both) == {"model", "quantized_model"}
