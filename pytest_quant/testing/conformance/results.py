"""The numbers are right, and coverage tells what ran."""

# ruff: noqa: S101

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import Backend
from pytest_quant.testing.conformance.examples import Example, conv, dense, tokens, two_by_two
from pytest_quant.testing.conformance.workbench import (
    SEVERAL,
    Workbench,
    float_spec,
    model_for,
    opened,
    shared,
    specs,
    sqnr_db,
)


class ProofTests(Workbench):
    """Coverage and provider are read back, not assumed."""

    def test_float_is_float(self, backend: Backend, tmp_path: Path) -> None:
        """A float engine runs all its eligible compute in float."""
        example = conv()
        engine = shared(backend, float_spec(backend, model_for(backend, example, tmp_path)), example)
        coverage = engine.coverage(example.feeds(1, 70))
        assert coverage.pct == 100.0
        assert coverage.opaque_nodes == 0
        assert coverage.float_nodes == ()

    def test_quantized_nodes_are_counted(self, backend: Backend, tmp_path: Path) -> None:
        """Two dense layers that are quantized count whole, and their outputs are not those of float."""
        example = dense()
        feeds = example.feeds(SEVERAL, 71)
        for spec in specs(backend, model_for(backend, example, tmp_path)):
            engine = shared(backend, spec, example)
            coverage = engine.coverage(feeds)
            outputs = engine.run(feeds)["y"]
            assert coverage.pct == 100.0, spec.id
            assert coverage.unit in ("MACs", "nodes")
            assert not np.array_equal(outputs, example.compute(feeds)["y"]), spec.id

    @pytest.mark.parametrize("make", [dense, conv])
    def test_planted_no_op(self, backend: Backend, tmp_path: Path, make: Callable[[], Example]) -> None:
        """With every node excluded coverage is 0, whatever the file is called, and the nodes are named."""
        example = make()
        feeds = example.feeds(SEVERAL, 72)
        for spec in specs(backend, model_for(backend, example, tmp_path), exclude=example.nodes):
            engine = shared(backend, spec, example)
            coverage = engine.coverage(feeds)
            outputs = engine.run(feeds)["y"]
            assert coverage.pct == 0.0, spec.id
            assert len(coverage.float_nodes) == len(example.nodes), spec.id
            np.testing.assert_allclose(outputs, example.compute(feeds)["y"], rtol=1e-4, atol=1e-4)

    def test_half_quantized(self, backend: Backend, tmp_path: Path) -> None:
        """With the smaller of two layers excluded coverage lies between 0 and 100, by MACs 2048 of 2368."""
        example = dense()
        for spec in specs(backend, model_for(backend, example, tmp_path), exclude=("second",)):
            engine = shared(backend, spec, example)
            coverage = engine.coverage(example.feeds(SEVERAL, 73))
            expected = 100.0 * 2048 / 2368 if coverage.unit == "MACs" else 50.0
            assert coverage.pct == pytest.approx(expected), spec.id

    def test_table_adds_up(self, backend: Backend, tmp_path: Path) -> None:
        """The rows of the table hold the two eligible nodes, and no row has more quantized nodes than nodes."""
        example = conv()
        for spec in specs(backend, model_for(backend, example, tmp_path)):
            engine = shared(backend, spec, example)
            coverage = engine.coverage(example.feeds(SEVERAL, 74))
            assert sum(row.nodes for row in coverage.by_op) >= 2, spec.id
            assert all(row.quantized_nodes <= row.nodes for row in coverage.by_op), spec.id

    def test_provider(self, backend: Backend, tmp_path: Path) -> None:
        """The provider that ran the nodes is the one that the engine names."""
        example = dense()
        engine = shared(backend, float_spec(backend, model_for(backend, example, tmp_path)), example)
        assert engine.coverage(example.feeds(1, 75)).provider == engine.provider


_MIN_SQNR_DB = {"int8": 20.0, "fp8": 15.0, "int4": 8.0}
"""Six decibels for each bit of the weights, less what activations and saturating kernels cost."""

_EXAMPLES = pytest.mark.parametrize("make", [dense, conv, two_by_two, tokens])


class ResultTests(Workbench):
    """Outputs against an independent computation."""

    @_EXAMPLES
    @pytest.mark.parametrize("n", [1, SEVERAL])
    def test_float_equals_numpy(self, backend: Backend, tmp_path: Path, make: Callable[[], Example], n: int) -> None:
        """The FP32 engine gives what plain numpy gives, for one sample and for several."""
        example = make()
        feeds = example.feeds(n, 50)
        engine = shared(backend, float_spec(backend, model_for(backend, example, tmp_path)), example)
        outputs = engine.run(feeds)
        wanted = example.compute(feeds)
        assert outputs.keys() == wanted.keys()
        for name, array in wanted.items():
            assert outputs[name].dtype == np.float32
            np.testing.assert_allclose(outputs[name], array, rtol=1e-4, atol=1e-5)

    @_EXAMPLES
    def test_quantized_agrees(self, backend: Backend, tmp_path: Path, make: Callable[[], Example]) -> None:
        """Every quantized engine is close to plain numpy, with the same names and shapes of outputs."""
        example = make()
        feeds = example.feeds(SEVERAL, 50)
        wanted = example.compute(feeds)
        for spec in specs(backend, model_for(backend, example, tmp_path)):
            engine = shared(backend, spec, example)
            outputs = engine.run(feeds)
            assert {name: array.shape for name, array in outputs.items()} == {n: a.shape for n, a in wanted.items()}
            assert sqnr_db(wanted, outputs) > _MIN_SQNR_DB[spec.precision], spec.id

    def test_odd_last_batch(self, backend: Backend, tmp_path: Path) -> None:
        """Seven samples at once, and four and then three, give the same outputs."""
        example = conv()
        feeds = example.feeds(7, 51)
        engine = shared(backend, float_spec(backend, model_for(backend, example, tmp_path)), example)
        whole = engine.run(feeds)["y"]
        parts = [engine.run({"x": feeds["x"][rows]})["y"] for rows in (slice(4), slice(4, 7))]
        np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-4, atol=1e-5)

    def test_dynamic_axis(self, backend: Backend, tmp_path: Path) -> None:
        """One engine takes inputs of two lengths when the axis is free."""
        model = model_for(backend, tokens(), tmp_path)
        engine = shared(backend, float_spec(backend, model), tokens())
        for length in (3, 11):
            feeds = tokens(length).feeds(2, 52)
            np.testing.assert_allclose(engine.run(feeds)["y"], tokens().compute(feeds)["y"], rtol=1e-4, atol=1e-5)

    def test_fixed_batch(self, backend: Backend, tmp_path: Path) -> None:
        """A model whose batch size is fixed says so and runs at that size."""
        example = dense(batch=4)
        spec = float_spec(backend, model_for(backend, example, tmp_path))
        assert [tensor.shape[0] for tensor in backend.signature(spec.model).inputs if tensor.shape] == [4]
        feeds = example.feeds(4, 53)
        engine = shared(backend, spec, example)
        np.testing.assert_allclose(engine.run(feeds)["y"], example.compute(feeds)["y"], rtol=1e-4, atol=1e-5)

    def test_same_again(self, backend: Backend, tmp_path: Path) -> None:
        """The same batch gives the same bits, within one engine and from a second one of the same build."""
        example = dense()
        feeds = example.feeds(SEVERAL, 54)
        model = model_for(backend, example, tmp_path)
        for spec in [float_spec(backend, model), *specs(backend, model)]:
            with opened(backend, spec, example) as one, opened(backend, spec, example) as other:
                first, second, third = one.run(feeds)["y"], one.run(feeds)["y"], other.run(feeds)["y"]
            assert np.array_equal(first, second), spec.id
            assert np.array_equal(first, third), spec.id
