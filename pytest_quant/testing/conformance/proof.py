"""Coverage tells what ran."""

# ruff: noqa: S101

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends.base import Backend
from pytest_quant.testing.conformance.examples import Example, conv, dense
from pytest_quant.testing.conformance.workbench import Workbench, float_spec, model_for, opened, specs


class ProofTests(Workbench):
    """Coverage and provider are read back, not assumed."""

    def test_float_is_float(self, backend: Backend, tmp_path: Path) -> None:
        """A float engine runs all its eligible compute in float."""
        example = conv()
        with opened(backend, float_spec(backend, model_for(backend, example, tmp_path)), example) as engine:
            found = engine.coverage(example.feeds(1, 70))
        assert found.pct == 100.0
        assert found.opaque_nodes == 0
        assert found.float_nodes == ()

    def test_quantized_nodes_are_counted(self, backend: Backend, tmp_path: Path) -> None:
        """Two dense layers that are quantized count whole, and their outputs are not those of float."""
        example = dense()
        feeds = example.feeds(4, 71)
        for spec in specs(backend, model_for(backend, example, tmp_path)):
            with opened(backend, spec, example) as engine:
                found = engine.coverage(feeds)
                outputs = engine.run(feeds)["y"]
            assert found.pct == 100.0, spec.id
            assert found.unit in ("MACs", "nodes")
            assert not np.array_equal(outputs, example.compute(feeds)["y"]), spec.id

    @pytest.mark.parametrize("make", [dense, conv])
    def test_planted_no_op(self, backend: Backend, tmp_path: Path, make: Callable[[], Example]) -> None:
        """With every node excluded coverage is 0, whatever the file is called, and the nodes are named."""
        example = make()
        feeds = example.feeds(2, 72)
        for spec in specs(backend, model_for(backend, example, tmp_path), exclude=example.nodes):
            with opened(backend, spec, example) as engine:
                found = engine.coverage(feeds)
                outputs = engine.run(feeds)["y"]
            assert found.pct == 0.0, spec.id
            assert len(found.float_nodes) == len(example.nodes), spec.id
            np.testing.assert_allclose(outputs, example.compute(feeds)["y"], rtol=1e-4, atol=1e-4)

    def test_half_quantized(self, backend: Backend, tmp_path: Path) -> None:
        """With the smaller of two layers excluded coverage lies between 0 and 100, by MACs 2048 of 2368."""
        example = dense()
        for spec in specs(backend, model_for(backend, example, tmp_path), exclude=("second",)):
            with opened(backend, spec, example) as engine:
                found = engine.coverage(example.feeds(1, 73))
            expected = 100.0 * 2048 / 2368 if found.unit == "MACs" else 50.0
            assert found.pct == pytest.approx(expected), spec.id

    def test_table_adds_up(self, backend: Backend, tmp_path: Path) -> None:
        """The rows of the table hold the two eligible nodes, and no row has more quantized nodes than nodes."""
        example = conv()
        for spec in specs(backend, model_for(backend, example, tmp_path)):
            with opened(backend, spec, example) as engine:
                found = engine.coverage(example.feeds(1, 74))
            assert sum(row.nodes for row in found.by_op) >= 2, spec.id
            assert all(row.quantized_nodes <= row.nodes for row in found.by_op), spec.id

    def test_provider(self, backend: Backend, tmp_path: Path) -> None:
        """The provider that ran the nodes is the one that the engine names."""
        example = dense()
        with opened(backend, float_spec(backend, model_for(backend, example, tmp_path)), example) as engine:
            assert engine.coverage(example.feeds(1, 75)).provider == engine.provider
