"""An engine keeps to what its callers rely on, and bad input is a clear error."""

# ruff: noqa: S101

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends import Backend, Feeds
from pytest_quant.errors import DataError, QuantError, UsageError
from pytest_quant.spec import Calibration
from pytest_quant.testing.conformance.examples import dense, passthrough, tokens, two_by_two
from pytest_quant.testing.conformance.workbench import SEVERAL, Workbench, build, opened

_BAD_FEEDS: dict[str, tuple[Callable[[Feeds], Feeds], str]] = {
    "name": (lambda feeds: {"z": feeds["x"]}, "input 'z'"),
    "missing": (lambda _: {}, "input 'x' is missing"),
    "rank": (lambda feeds: {"x": feeds["x"][0]}, "wrong rank"),
    "size": (lambda feeds: {"x": feeds["x"][:, :-1]}, "wrong shape"),
    "dtype": (lambda feeds: {"x": feeds["x"].astype(np.float64)}, "wrong dtype"),
}


class ContractTests:
    """What a backend and its engines owe to the code that calls them; the fixtures of all tests."""

    @pytest.fixture
    def backend(self) -> Backend:
        """Return the backend under test; every author overrides this."""
        raise NotImplementedError("override the fixture 'backend'")

    @pytest.fixture(scope="class")
    @classmethod
    def _shared(cls) -> Iterator[tuple[ExitStack, dict[Any, Any]]]:
        with ExitStack() as at_the_end:
            yield at_the_end, {}

    @pytest.fixture
    def bench(self, backend: Backend, tmp_path: Path, _shared: tuple[ExitStack, dict[Any, Any]]) -> Workbench:
        """Return the backend with its engines, which are closed after the last test of the class."""
        return Workbench(backend, tmp_path, *_shared)

    def test_available(self, backend: Backend) -> None:
        """A backend under test is available, with the version of its runtime."""
        availability = backend.availability()
        assert availability.available, availability.reason
        assert not availability.broken
        assert availability.version

    def test_signature(self, bench: Workbench) -> None:
        """Names, dtypes and sizes are those of the graph; a free axis is ``None``."""
        signature = bench.backend.signature(bench.model(tokens()))
        assert [(tensor.name, tensor.dtype, tensor.shape) for tensor in signature.inputs] == [
            ("ids", "int64", (None, None))
        ]
        assert [(output.name, output.dtype, output.shape) for output in signature.outputs] == [
            ("y", "float32", (None, None, 4))
        ]

    def test_engine_tells_what_it_is(self, backend: Backend, bench: Workbench) -> None:
        """An engine knows its spec, its inputs and outputs, its provider and its size."""
        spec = bench.float_spec(two_by_two())
        with opened(backend, spec, two_by_two()) as engine:
            assert engine.spec == spec
            assert {tensor.name for tensor in engine.signature.inputs} == {"a", "b"}
            assert {output.name for output in engine.signature.outputs} == {"wide", "narrow"}
            assert engine.provider
            assert engine.size_bytes > 0
            assert not engine.simulated

    def test_outputs_belong_to_the_caller(self, bench: Workbench) -> None:
        """A later run changes neither earlier outputs nor the inputs, and inputs and outputs share no memory."""
        feeds, others = dense().feeds(SEVERAL, 60), dense().feeds(SEVERAL, 61)
        kept_input = feeds["x"].copy()
        engine = bench.float_engine(dense())
        first = engine.run(feeds)["y"]
        copied = first.copy()
        second = engine.run(others)["y"]
        assert np.array_equal(first, copied)
        assert np.array_equal(feeds["x"], kept_input)
        assert not np.shares_memory(first, second)
        assert not np.shares_memory(first, feeds["x"])

    def test_outputs_may_be_written_to(self, bench: Workbench) -> None:
        """Writing into outputs that were handed through or are constant changes neither inputs nor the next run."""
        feeds = passthrough().feeds(3, 64)
        wanted = passthrough().compute(feeds)
        engine = bench.float_engine(passthrough())
        for array in engine.run(feeds).values():
            if array.flags.writeable:
                array[:] = -1.0
        again = engine.run(feeds)
        assert all(np.array_equal(again[name], array) for name, array in wanted.items())

    def test_prepared_calls(self, bench: Workbench) -> None:
        """They can be made again and again, and leave `run` as it was; a device's clock has a part of the wait."""
        feeds = dense().feeds(SEVERAL, 62)
        engine = bench.float_engine(dense())
        before = engine.run(feeds)["y"]
        call, by_events = engine.prepare(feeds), engine.prepare_events(feeds)
        for _ in range(3):
            call()
            started = time.perf_counter_ns()
            if by_events is not None:
                device_ms = by_events()
                assert 0 < device_ms <= (time.perf_counter_ns() - started) / 1e6
        assert np.array_equal(engine.run(feeds)["y"], before)

    def test_times_of_layers(self, bench: Workbench) -> None:
        """Layers name nodes of the model, each product among them, and all have times or none has; `run` stays."""
        feeds = dense().feeds(SEVERAL, 62)
        for engine in [bench.float_engine(dense()), *bench.engines(dense())]:
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
            nodes = {node for layer in layers for node in layer.nodes}
            assert opaque or set(dense().nodes) <= nodes, engine.spec.id

    def test_close(self, backend: Backend, bench: Workbench) -> None:
        """Closing twice is harmless, and a closed engine says that it is closed."""
        with opened(backend, bench.float_spec(dense()), dense()) as engine:
            engine.close()
            engine.close()
            for call in (engine.run, engine.prepare):
                with pytest.raises(QuantError, match="closed"):
                    call(dense().feeds(1, 63))

    def test_same_ingredients(self, backend: Backend, bench: Workbench) -> None:
        """Two builds of the same things have the same ingredients, so they share one cache entry."""
        for spec in [bench.float_spec(dense()), *bench.specs(dense())]:
            before = backend.ingredients(spec), backend.calibration_ingredients(spec)
            build(backend, spec, dense(), bench.folder / f"build-{spec.id}")
            assert before == (backend.ingredients(spec), backend.calibration_ingredients(spec))
            assert all(isinstance(text, str) for text in before[0].values())

    def test_each_ingredient(self, backend: Backend, bench: Workbench) -> None:
        """Other weights under the same file name, another scheme, an excluded node: each changes the ingredients."""
        quantized = bench.specs(dense())
        before_all = [backend.ingredients(spec) for spec in quantized]
        assert len({tuple(sorted(ingredients.items())) for ingredients in before_all}) == len(quantized)
        for spec, before in zip(quantized, before_all, strict=True):
            excluded = backend.ingredients(replace(spec, exclude=("first",)))
            assert _changed(before, excluded) == {"exclude"}, spec.id
        heavier = bench.model(dense(scale=20.0))
        for spec, before in zip(quantized, before_all, strict=True):
            changed = _changed(before, backend.ingredients(replace(spec, model=heavier)))
            assert changed, spec.id
            assert all("model" in name for name in changed), spec.id

    def test_each_calibration_ingredient(self, backend: Backend, bench: Workbench) -> None:
        """Ranges depend on the weights and the number of samples; on excluded nodes where rounding is the same step."""
        for spec in bench.specs(dense()):
            before = backend.calibration_ingredients(spec)
            if before is None:
                continue
            excluded = backend.calibration_ingredients(replace(spec, exclude=("first",)))
            assert excluded is not None
            assert _changed(before, excluded) <= {"exclude"}
            fewer = backend.calibration_ingredients(replace(spec, calibration=Calibration(samples=3)))
            assert fewer is not None
            assert _changed(before, fewer) == {"samples"}
            heavier = replace(spec, model=bench.model(dense(scale=20.0)))
            assert backend.calibration_ingredients(heavier) != before
            bench.model(dense())

    def test_remedies(self, backend: Backend, bench: Workbench) -> None:
        """A backend takes each remedy that it offers, and none is what the mark says already."""
        for spec in bench.specs(dense()):
            for remedy in backend.remedies(spec):
                backend.check(remedy.spec)
                assert remedy.spec != spec, remedy.paste
                again = [offered.paste for offered in backend.remedies(remedy.spec)]
                assert remedy.paste not in again, f"{remedy.paste} is offered to a mark that says it"
            nodes = backend.quantized_nodes(spec)
            assert not set(nodes) & set(backend.quantized_nodes(replace(spec, exclude=nodes[:1]))) & set(nodes[:1])
            if nodes:
                build(backend, replace(spec, exclude=nodes), dense(), bench.folder / f"excluded-{spec.id}")

    @pytest.mark.parametrize("kind", _BAD_FEEDS)
    def test_wrong_inputs(self, bench: Workbench, kind: str) -> None:
        """A wrong name, rank, size or dtype is a DataError in `run` and in `prepare`; the engine stays usable."""
        spoil, message = _BAD_FEEDS[kind]
        feeds = dense().feeds(SEVERAL, 80)
        engine = bench.float_engine(dense())
        for call in (engine.run, engine.prepare):
            with pytest.raises(DataError, match=message):
                call(spoil(feeds))
        np.testing.assert_allclose(engine.run(feeds)["y"], dense().compute(feeds)["y"], rtol=1e-4, atol=1e-5)

    def test_unknown_option_and_scheme(self, backend: Backend, bench: Workbench) -> None:
        """An unknown option is a UsageError that names it, and a scheme that is not offered is one too."""
        spec = bench.float_spec(dense())
        with pytest.raises(UsageError, match="no_such_option"):
            backend.check(replace(spec, options=(("no_such_option", 1),)))
        with pytest.raises(UsageError):
            backend.check(replace(spec, precision="int8", scheme="astrology"))

    def test_no_calibration_batch(self, backend: Backend, bench: Workbench) -> None:
        """A scheme that calibrates and gets no batch is a DataError, not an engine with invented ranges."""
        for spec in bench.specs(dense()):
            if backend.calibration_ingredients(spec) is not None:
                with pytest.raises(DataError, match="no batch"):
                    backend.calibrate(spec, lambda: iter(()), bench.folder)


def _changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
