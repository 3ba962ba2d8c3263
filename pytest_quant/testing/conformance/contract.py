"""An engine keeps to what its callers rely on."""

# ruff: noqa: S101

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import Backend
from pytest_quant.errors import QuantError
from pytest_quant.spec import Calibration
from pytest_quant.testing.conformance.examples import dense, passthrough, tokens, two_by_two
from pytest_quant.testing.conformance.workbench import (
    SEVERAL,
    Workbench,
    build,
    float_spec,
    model_for,
    opened,
    shared,
    specs,
)


class ContractTests(Workbench):
    """What an engine owes to the code that calls it."""

    def test_available(self, backend: Backend) -> None:
        """A backend under test is available, with the version of its runtime."""
        availability = backend.availability()
        assert availability.available, availability.reason
        assert not availability.broken
        assert availability.version

    def test_signature(self, backend: Backend, tmp_path: Path) -> None:
        """Names, dtypes and sizes are those of the graph; a free axis is ``None``."""
        signature = backend.signature(model_for(backend, tokens(), tmp_path))
        assert [(tensor.name, tensor.dtype, tensor.shape) for tensor in signature.inputs] == [
            ("ids", "int64", (None, None))
        ]
        assert [(output.name, output.dtype, output.shape) for output in signature.outputs] == [
            ("y", "float32", (None, None, 4))
        ]

    def test_engine_tells_what_it_is(self, backend: Backend, tmp_path: Path) -> None:
        """An engine knows its spec, its inputs and outputs, its provider and its size."""
        example = two_by_two()
        spec = float_spec(backend, model_for(backend, example, tmp_path))
        with opened(backend, spec, example) as engine:
            assert engine.spec == spec
            assert {tensor.name for tensor in engine.signature.inputs} == {"a", "b"}
            assert {output.name for output in engine.signature.outputs} == {"wide", "narrow"}
            assert engine.provider
            assert engine.size_bytes > 0
            assert not engine.simulated

    def test_outputs_belong_to_the_caller(self, backend: Backend, tmp_path: Path) -> None:
        """A later run changes neither earlier outputs nor the inputs, and inputs and outputs share no memory."""
        example = dense()
        feeds, others = example.feeds(SEVERAL, 60), example.feeds(SEVERAL, 61)
        kept_input = feeds["x"].copy()
        engine = shared(backend, float_spec(backend, model_for(backend, example, tmp_path)), example)
        first = engine.run(feeds)["y"]
        copied = first.copy()
        second = engine.run(others)["y"]
        assert np.array_equal(first, copied)
        assert np.array_equal(feeds["x"], kept_input)
        assert not np.shares_memory(first, second)
        assert not np.shares_memory(first, feeds["x"])

    def test_outputs_may_be_written_to(self, backend: Backend, tmp_path: Path) -> None:
        """Writing into outputs that were handed through or are constant changes neither inputs nor the next run."""
        example = passthrough()
        feeds = example.feeds(3, 64)
        wanted = example.compute(feeds)
        engine = shared(backend, float_spec(backend, model_for(backend, example, tmp_path)), example)
        for array in engine.run(feeds).values():
            if array.flags.writeable:
                array[:] = -1.0
        again = engine.run(feeds)
        assert all(np.array_equal(again[name], array) for name, array in wanted.items())

    def test_prepared_call(self, backend: Backend, tmp_path: Path) -> None:
        """The call that is timed can be made again and again, and leaves `run` as it was."""
        example = dense()
        feeds = example.feeds(SEVERAL, 62)
        engine = shared(backend, float_spec(backend, model_for(backend, example, tmp_path)), example)
        before = engine.run(feeds)["y"]
        call = engine.prepare(feeds)
        for _ in range(3):
            call()
        assert np.array_equal(engine.run(feeds)["y"], before)

    def test_clock_of_the_device(self, backend: Backend, tmp_path: Path) -> None:
        """Where the device has a clock, compute takes part of the time that the host waits; `run` stays as it was."""
        example = dense()
        feeds = example.feeds(SEVERAL, 62)
        engine = shared(backend, float_spec(backend, model_for(backend, example, tmp_path)), example)
        before = engine.run(feeds)["y"]
        call = engine.prepare_events(feeds)
        if call is None:
            pytest.skip("the device has no clock of its own")
        for _ in range(3):
            started = time.perf_counter_ns()
            device_ms = call()
            assert 0 < device_ms <= (time.perf_counter_ns() - started) / 1e6
        assert np.array_equal(engine.run(feeds)["y"], before)

    def test_times_of_layers(self, backend: Backend, tmp_path: Path) -> None:
        """Layers name nodes of the model, each product among them, and all have times or none has; `run` stays."""
        example = dense()
        model = model_for(backend, example, tmp_path)
        feeds = example.feeds(SEVERAL, 62)
        for spec in [float_spec(backend, model), *specs(backend, model)]:
            engine = shared(backend, spec, example)
            before = engine.run(feeds)["y"]
            layers = engine.layer_times(feeds)
            assert np.array_equal(engine.run(feeds)["y"], before)
            if not layers:
                pytest.skip("the engine lists no layers")
            times = [layer.ms for layer in layers if layer.ms is not None]
            assert len(times) in (0, len(layers))
            assert all(ms >= 0 for ms in times)
            # A subgraph that a provider compiled is one layer, which stands for nodes that nobody can tell.
            opaque = [layer for layer in layers if layer.role == "other"]
            assert opaque or set(example.nodes) <= {node for layer in layers for node in layer.nodes}, spec.id

    def test_close(self, backend: Backend, tmp_path: Path) -> None:
        """Closing twice is harmless, and a closed engine says that it is closed."""
        example = dense()
        with opened(backend, float_spec(backend, model_for(backend, example, tmp_path)), example) as engine:
            engine.close()
            engine.close()
            for call in (engine.run, engine.prepare):
                with pytest.raises(QuantError, match="closed"):
                    call(example.feeds(1, 63))

    def test_same_ingredients(self, backend: Backend, tmp_path: Path) -> None:
        """Two builds of the same things have the same ingredients, so they share one cache entry."""
        example = dense()
        model = model_for(backend, example, tmp_path)
        for spec in [float_spec(backend, model), *specs(backend, model)]:
            before = backend.ingredients(spec), backend.calibration_ingredients(spec)
            build(backend, spec, example, _folder(tmp_path, spec.id))
            assert before == (backend.ingredients(spec), backend.calibration_ingredients(spec))
            assert all(isinstance(text, str) for text in before[0].values())

    def test_each_ingredient(self, backend: Backend, tmp_path: Path) -> None:
        """Other weights under the same file name, another scheme, an excluded node: each changes the ingredients."""
        model = model_for(backend, dense(), tmp_path)
        quantized = specs(backend, model)
        before_all = [backend.ingredients(spec) for spec in quantized]
        assert len({tuple(sorted(ingredients.items())) for ingredients in before_all}) == len(quantized)
        for spec, before in zip(quantized, before_all, strict=True):
            excluded = backend.ingredients(replace(spec, exclude=("first",)))
            assert _changed(before, excluded) == {"exclude"}, spec.id
        heavier = model_for(backend, dense(scale=20.0), tmp_path)
        for spec, before in zip(quantized, before_all, strict=True):
            changed = _changed(before, backend.ingredients(replace(spec, model=heavier)))
            assert changed, spec.id
            assert all("model" in name for name in changed), spec.id

    def test_remedies(self, backend: Backend, tmp_path: Path) -> None:
        """A backend takes each remedy that it offers, and none is what the mark says already."""
        example = dense()
        for spec in specs(backend, model_for(backend, example, tmp_path)):
            for remedy in backend.remedies(spec):
                backend.check(remedy.spec)
                assert remedy.spec != spec, remedy.paste
                again = [offered.paste for offered in backend.remedies(remedy.spec)]
                assert remedy.paste not in again, f"{remedy.paste} is offered to a mark that says it"
            nodes = backend.quantized_nodes(spec)
            assert not set(nodes) & set(backend.quantized_nodes(replace(spec, exclude=nodes[:1]))) & set(nodes[:1])
            if nodes:
                build(backend, replace(spec, exclude=nodes), example, _folder(tmp_path, f"excluded-{spec.id}"))

    def test_each_calibration_ingredient(self, backend: Backend, tmp_path: Path) -> None:
        """Ranges depend on the weights and the number of samples; on excluded nodes where rounding is the same step."""
        model = model_for(backend, dense(), tmp_path)
        for spec in specs(backend, model):
            before = backend.calibration_ingredients(spec)
            if before is None:
                continue
            excluded = backend.calibration_ingredients(replace(spec, exclude=("first",)))
            assert excluded is not None
            assert _changed(before, excluded) <= {"exclude"}
            fewer = backend.calibration_ingredients(replace(spec, calibration=Calibration(samples=3)))
            assert fewer is not None
            assert _changed(before, fewer) == {"samples"}
            heavier = model_for(backend, dense(scale=20.0), tmp_path)
            assert backend.calibration_ingredients(replace(spec, model=heavier)) != before
            model_for(backend, dense(), tmp_path)


def _changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def _folder(parent: Path, name: str) -> Path:
    folder = parent / f"build-{name}"
    folder.mkdir()
    return folder
