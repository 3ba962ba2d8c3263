"""The numbers are right, and coverage tells what ran."""

# ruff: noqa: S101

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pytest_quant.testing.conformance.examples import Example, conv, dense, tokens, two_by_two
from pytest_quant.testing.conformance.workbench import SEVERAL, Workbench, opened, sqnr_db

_MIN_SQNR_DB = {"int8": 20.0, "fp8": 15.0, "int4": 8.0}
"""Six decibels for each bit of the weights, less what activations and saturating kernels cost."""

_EXAMPLES = pytest.mark.parametrize("make", [dense, conv, two_by_two, tokens])


class ResultTests:
    """Outputs against an independent computation; coverage and provider are read back, not assumed."""

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
            assert sqnr_db(wanted, outputs) > _MIN_SQNR_DB[engine.spec.precision], engine.spec.id

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
            with opened(bench.backend, spec, example) as engine, opened(bench.backend, spec, example) as other:
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
        """Two dense layers that are quantized count whole, and their outputs are not those of float."""
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
