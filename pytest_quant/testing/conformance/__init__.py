"""What every backend must do, as classes of tests to inherit from.

Override the fixture ``backend``. A scheme that needs a model of its own (``given``, ``qat``) is not tried here.
"""

# ruff: noqa: S101

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from pytest_quant.backends import Backend, Feeds
from pytest_quant.errors import BuildError, DataError, ModelError, QuantError, UsageError
from pytest_quant.spec import Calibration, Model
from pytest_quant.testing.conformance.examples import (
    SEVERAL,
    Example,
    Workbench,
    build,
    conv,
    dense,
    float_spec,
    open_example,
    passthrough,
    sqnr_db,
    tokens,
    two_by_two,
    unknown_operator,
)

__all__ = ["BackendConformance", "ModuleBackendConformance"]

_BAD_FEEDS: dict[str, tuple[Callable[[Feeds], Feeds], str]] = {
    "name": (lambda feeds: {"z": feeds["x"]}, "input 'z'"),
    "missing": (lambda _: {}, "input 'x' is missing"),
    "rank": (lambda feeds: {"x": feeds["x"][0]}, "wrong rank"),
    "size": (lambda feeds: {"x": feeds["x"][:, :-1]}, "wrong shape"),
    "dtype": (lambda feeds: {"x": feeds["x"].astype(np.float64)}, "wrong dtype"),
}

_EXAMPLES = pytest.mark.parametrize("make", [dense, conv, two_by_two, tokens])


class _EngineTests:
    """What a backend and its engines owe to the code that calls them: contract, outputs, and proof of what ran."""

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
        """Names, dtypes and sizes agree with the graph; a free axis is ``None``."""
        signature = bench.backend.signature(bench.model(tokens()))
        (ids,), (y,) = signature.inputs, signature.outputs
        assert (ids.name, ids.dtype, ids.shape) == ("ids", "int64", (None, None))
        assert (y.name, y.dtype, y.shape) == ("y", "float32", (None, None, 4))

    def test_engine_tells_what_it_is(self, backend: Backend, bench: Workbench) -> None:
        """An engine knows its spec, its inputs and outputs, its provider and its size."""
        spec = bench.float_spec(two_by_two())
        with open_example(backend, spec, two_by_two()) as engine:
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
        with open_example(backend, bench.float_spec(dense()), dense()) as engine:
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
            assert _list_changed(before, excluded) == {"exclude"}, spec.id
        heavier = bench.model(dense(scale=20.0))
        for spec, before in zip(quantized, before_all, strict=True):
            changed = _list_changed(before, backend.ingredients(replace(spec, model=heavier)))
            assert changed, spec.id
            assert all("model" in name for name in changed), spec.id

    def test_each_calibration_ingredient(self, backend: Backend, bench: Workbench) -> None:
        """Ranges depend on the weights and the number of samples; on excluded nodes if rounding is the same step."""
        for spec in bench.specs(dense()):
            before = backend.calibration_ingredients(spec)
            if before is None:
                continue
            excluded = backend.calibration_ingredients(replace(spec, exclude=("first",)))
            assert excluded is not None
            assert _list_changed(before, excluded) <= {"exclude"}
            fewer = backend.calibration_ingredients(replace(spec, calibration=Calibration(samples=3)))
            assert fewer is not None
            assert _list_changed(before, fewer) == {"samples"}
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
        """An unknown option is a UsageError that names it, and so is a scheme that is not offered."""
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

    @_EXAMPLES
    @pytest.mark.parametrize("n", [1, SEVERAL])
    def test_float_equals_numpy(self, bench: Workbench, make: Callable[[], Example], n: int) -> None:
        """The FP32 engine gives what plain numpy gives, for one sample and for several."""
        example = make()
        feeds = example.feeds(n, 50)
        outputs = bench.float_engine(example).run(feeds)
        wanted = example.compute(feeds)
        assert outputs.keys() == wanted.keys()
        for name, array in wanted.items():
            assert outputs[name].dtype == np.float32
            np.testing.assert_allclose(outputs[name], array, rtol=1e-4, atol=1e-5)

    @_EXAMPLES
    def test_quantized_agrees(self, bench: Workbench, make: Callable[[], Example]) -> None:
        """Every quantized engine is close to plain numpy, with the same names and shapes of outputs."""
        example = make()
        feeds = example.feeds(SEVERAL, 50)
        wanted = example.compute(feeds)
        for engine in bench.engines(example):
            outputs = engine.run(feeds)
            assert {name: array.shape for name, array in outputs.items()} == {n: a.shape for n, a in wanted.items()}
            # Six decibels for each bit of the weights, less what activations and saturating kernels cost.
            least_db = {"int8": 20.0, "fp8": 15.0, "int4": 8.0}[engine.spec.precision]
            assert sqnr_db(wanted, outputs) > least_db, engine.spec.id

    def test_odd_last_batch(self, bench: Workbench) -> None:
        """Seven samples at once, and four and then three, give the same outputs."""
        feeds = conv().feeds(7, 51)
        engine = bench.float_engine(conv())
        whole = engine.run(feeds)["y"]
        parts = [engine.run({"x": feeds["x"][rows]})["y"] for rows in (slice(4), slice(4, 7))]
        np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-4, atol=1e-5)

    def test_dynamic_axis(self, bench: Workbench) -> None:
        """One engine takes inputs of two lengths when the axis is free."""
        engine = bench.float_engine(tokens())
        for length in (3, 11):
            feeds = tokens(length).feeds(2, 52)
            np.testing.assert_allclose(engine.run(feeds)["y"], tokens().compute(feeds)["y"], rtol=1e-4, atol=1e-5)

    def test_fixed_batch(self, bench: Workbench) -> None:
        """A model whose batch size is fixed says so and runs at that size."""
        example = dense(batch=4)
        signature = bench.backend.signature(bench.model(example))
        assert [tensor.shape[0] for tensor in signature.inputs if tensor.shape] == [4]
        feeds = example.feeds(4, 53)
        outputs = bench.float_engine(example).run(feeds)
        np.testing.assert_allclose(outputs["y"], example.compute(feeds)["y"], rtol=1e-4, atol=1e-5)

    def test_same_again(self, bench: Workbench) -> None:
        """The same batch gives the same bits, within one engine and from a second one of the same build."""
        example = dense()
        feeds = example.feeds(SEVERAL, 54)
        for spec in [bench.float_spec(example), *bench.specs(example)]:
            with (
                open_example(bench.backend, spec, example) as engine,
                open_example(bench.backend, spec, example) as other,
            ):
                first, second, third = engine.run(feeds)["y"], engine.run(feeds)["y"], other.run(feeds)["y"]
            assert np.array_equal(first, second), spec.id
            assert np.array_equal(first, third), spec.id

    def test_float_is_float(self, bench: Workbench) -> None:
        """A float engine runs all its eligible compute in float, on the provider that it names."""
        engine = bench.float_engine(conv())
        coverage = engine.coverage(conv().feeds(1, 70))
        assert coverage.provider == engine.provider
        assert coverage.pct == 100.0
        assert coverage.opaque_nodes == 0
        assert coverage.float_nodes == ()

    def test_quantized_nodes_are_counted(self, bench: Workbench) -> None:
        """Two dense layers that are quantized count whole, and their outputs differ from float."""
        feeds = dense().feeds(SEVERAL, 71)
        for engine in bench.engines(dense()):
            coverage = engine.coverage(feeds)
            outputs = engine.run(feeds)["y"]
            assert coverage.pct == 100.0, engine.spec.id
            assert coverage.unit in ("MACs", "nodes")
            assert not np.array_equal(outputs, dense().compute(feeds)["y"]), engine.spec.id

    @pytest.mark.parametrize("make", [dense, conv])
    def test_planted_no_op(self, bench: Workbench, make: Callable[[], Example]) -> None:
        """With every node excluded coverage is 0, whatever the file is called, and the nodes are named."""
        example = make()
        feeds = example.feeds(SEVERAL, 72)
        for engine in bench.engines(example, exclude=example.nodes):
            coverage = engine.coverage(feeds)
            outputs = engine.run(feeds)["y"]
            assert coverage.pct == 0.0, engine.spec.id
            assert len(coverage.float_nodes) == len(example.nodes), engine.spec.id
            np.testing.assert_allclose(outputs, example.compute(feeds)["y"], rtol=1e-4, atol=1e-4)

    def test_half_quantized(self, bench: Workbench) -> None:
        """With the smaller of two layers excluded coverage lies between 0 and 100, by MACs 2048 of 2368."""
        for engine in bench.engines(dense(), exclude=("second",)):
            coverage = engine.coverage(dense().feeds(SEVERAL, 73))
            expected = 100.0 * 2048 / 2368 if coverage.unit == "MACs" else 50.0
            assert coverage.pct == pytest.approx(expected), engine.spec.id


def _list_changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


class BackendConformance(_EngineTests):
    """For a backend that reads ONNX files: results, the engine's contract, proof of what ran, errors."""

    def test_missing_file(self, backend: Backend, tmp_path: Path) -> None:
        """A model file that is not there is a ModelError that names it."""
        with pytest.raises(ModelError, match=r"nowhere\.onnx"):
            backend.signature(Model.from_onnx(tmp_path / "nowhere.onnx"))

    @pytest.mark.parametrize("content", [b"", b"not a model at all", b"PK\x03\x04 a zip file"])
    def test_not_a_model(self, backend: Backend, tmp_path: Path, content: bytes) -> None:
        """A file that holds something else is a ModelError, in `signature` and in `ingredients`."""
        path = tmp_path / "broken.onnx"
        path.write_bytes(content)
        for call in (backend.signature, lambda model: backend.ingredients(float_spec(backend, model))):
            with pytest.raises(ModelError, match=r"broken\.onnx"):
                call(Model.from_onnx(path))

    def test_truncated_model(self, backend: Backend, tmp_path: Path) -> None:
        """A model cut off in the middle is a ModelError."""
        model = dense().write(tmp_path)
        assert model.path is not None
        model.path.write_bytes(model.path.read_bytes()[:-1000])
        with pytest.raises(ModelError):
            backend.signature(model)

    def test_unknown_operator(self, backend: Backend, tmp_path: Path) -> None:
        """An operator that the runtime does not have is an error that names it."""
        path = tmp_path / "strange.onnx"
        onnx.save_model(unknown_operator(), path)
        spec = float_spec(backend, Model.from_onnx(path))
        with pytest.raises((BuildError, ModelError), match="NoSuchOperator"), open_example(backend, spec, dense()):
            pass

    def test_torch_module(self, backend: Backend) -> None:
        """A model without a file is an error that says how to write one, for this backend takes files."""
        with pytest.raises((UsageError, ModelError)):
            backend.signature(Model.from_torch(object(), ()))


class ModuleBackendConformance(_EngineTests):
    """The same for a backend that reads torch modules."""

    def test_a_file(self, backend: Backend, tmp_path: Path) -> None:
        """A model file is a UsageError that says how to hand over a module."""
        with pytest.raises(UsageError, match="from_torch"):
            backend.signature(dense().write(tmp_path))

    @pytest.mark.parametrize("thing", [object(), "resnet18", None])
    def test_not_a_module(self, backend: Backend, thing: object) -> None:
        """Something else is an error, in `signature` and in `ingredients`."""
        model = Model.from_torch(thing, ())
        for call in (backend.signature, lambda model: backend.ingredients(float_spec(backend, model))):
            with pytest.raises((ModelError, UsageError)):
                call(model)
