"""Shapes that engines are built for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends import Offer
from pytest_quant.data import open_data
from pytest_quant.measure import engines
from pytest_quant.measure.engines import read_data, shape_check
from pytest_quant.spec import Check, Dataset, EngineSpec, InputShapes, LatencyPlan, Model, Signature, TensorInfo
from tests.support.measuring import quiet_tools
from tests.unit.measure.played import PlayedBackend

Y = TensorInfo("y", "float32", (None, 2))


class Shaped(PlayedBackend):
    """A backend that builds for shapes, up to a batch that an option may bound."""

    offer = Offer({}, fixed_shapes=True)

    def largest_batch(self, spec: EngineSpec, batch_axes: Mapping[str, int | None]) -> int | None:
        """Return the option, and note the axes."""
        self.calls.append(("axes", batch_axes))
        bound = dict(spec.options).get("batch")
        return bound if isinstance(bound, int) else None


SEQUENCES = [np.zeros((length, 2), np.float32) for length in (3, 5, 5, 9)] * 10
CANDIDATE = EngineSpec("shaped", "int8", "dynamic", Model("net"))
REFERENCE = EngineSpec("plain", "fp32", None, Model("net"))


def shaped(
    monkeypatch: pytest.MonkeyPatch, signature: Signature, samples: list[np.ndarray], **others: Any
) -> tuple[Check, Shaped]:
    """Return the check of a candidate that is built for shapes and a reference that is not."""
    backends = {name: kind(lambda *_: {}, signature) for name, kind in (("shaped", Shaped), ("plain", PlayedBackend))}
    monkeypatch.setattr(engines, "get_backend", backends.__getitem__)
    dataset = Dataset.from_iterable([(sample, 0) for sample in samples])
    check = replace(Check("t", "t", CANDIDATE, REFERENCE, dataset), **others)
    backend = backends["shaped"]
    assert isinstance(backend, Shaped)
    return shape_check(check, open_data(dataset, signature)), backend


@pytest.mark.parametrize(
    ("others", "usual", "largest", "evaluated"),
    [
        ({}, 1, 32, None),
        ({"eval_batch_size": 8}, 1, 8, 8),
        ({"latency": LatencyPlan(batch_size=4)}, 4, 32, None),
        ({"latency": LatencyPlan(batch_size=64)}, 64, 64, None),
        ({"latency": None, "batch_size": 6}, 6, 32, None),
        ({"candidate": replace(CANDIDATE, options=(("batch", 16),))}, 1, 16, 16),
        ({"candidate": replace(CANDIDATE, options=(("batch", 99),))}, 1, 32, None),
    ],
)
def test_an_engine_is_built_for_the_shapes_of_its_runs(
    monkeypatch: pytest.MonkeyPatch, others: dict[str, Any], usual: int, largest: int, evaluated: int | None
) -> None:
    """One sample of the shortest, the batch that is timed of the commonest, the largest batch of the longest."""
    signature = Signature((TensorInfo("x", "float32", (None, None, 2)),), (Y,))
    result, backend = shaped(monkeypatch, signature, SEQUENCES, **others)
    assert result.candidate.shapes == (InputShapes("x", (1, 3, 2), (usual, 5, 2), (largest, 9, 2), 0),)
    assert result.reference.shapes == ()
    assert result.eval_batch_size == evaluated
    assert backend.calls == [("axes", {"x": 0})]


def test_a_batch_is_evaluated_that_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine is built for three of the longest sequences here, of 9 times 2 floats, and for no more."""
    monkeypatch.setattr("pytest_quant.data.opening._BATCH_BYTES", 3 * 9 * 2 * 4)
    signature = Signature((TensorInfo("x", "float32", (None, None, 2)),), (Y,))
    result, _ = shaped(monkeypatch, signature, SEQUENCES)
    assert result.candidate.shapes[0].largest == (3, 9, 2)


@pytest.mark.parametrize("shape", [(4, 2), (2,)])
def test_an_input_of_a_fixed_shape_is_built_for_that(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    """A batch that the graph fixes is the only one, and an input without samples has its own shape in any batch."""
    signature = Signature((TensorInfo("x", "float32", shape),), (Y,))
    result, _ = shaped(monkeypatch, signature, [np.zeros(2, np.float32)] * 5)
    assert result.candidate.shapes == (InputShapes("x", shape, shape, shape, None),)


def test_the_largest_tensor_is_that_of_one_of_the_longest_samples(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As the backend tells it; where the graph fixes the batch nothing follows from it, and nobody asks."""
    asked = []

    class Told(Shaped):
        def largest_tensor(self, _model: Model, shapes: Mapping[str, tuple[int, ...]]) -> int:
            asked.append(shapes)
            return 1234

    for size, told in ((None, 1234), (1, 0)):
        signature = Signature((TensorInfo("x", "float32", (size, None, 2)),), (Y,))
        monkeypatch.setattr(engines, "get_backend", lambda _, its=signature: Told(lambda *_: {}, its))
        data = read_data(Dataset.from_iterable(SEQUENCES), CANDIDATE, quiet_tools(tmp_path))
        assert data.tensor_bytes == told
    assert asked == [{"x": (1, 9, 2)}]
