"""Models of one step with a state: whole sequences are run, and the state goes from step to step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from pytest_quant.errors import UsageError
from pytest_quant.measure.rollout import Rollout
from pytest_quant.metrics import Metric
from pytest_quant.result import Status
from pytest_quant.spec import Dataset, EngineSpec, Limits, Model
from pytest_quant.testing.numpy_engine import NumpyEngine
from tests.support import layouts
from tests.support.measuring import accuracy_of, checked, last_step, numbers

N, STEPS = 40, 6
STATE = {"h_out": "h_in"}


def accumulated(steps: np.ndarray, start: np.ndarray | float = 0.0) -> np.ndarray:
    """h[t] = h[t - 1] / 2 + x[t] w for (n, steps, 8), in float64: (n, steps, 4)."""
    state = np.zeros((len(steps), 4)) + start
    result = []
    for step in range(steps.shape[1]):
        state = state / 2 + steps[:, step, :4].astype(np.float64)
        result.append(state)
    return np.stack(result, axis=1)


@pytest.mark.parametrize("start", [None, 3.0], ids=["from zeros", "from the data"])
@pytest.mark.parametrize(
    ("backend", "scheme"),
    [("ort", "static"), ("ort", "dynamic"), ("ort", None), ("openvino", "static"), ("openvino", None)],
)
def test_states_go_from_step_to_step(backend: str, scheme: str | None, start: float | None, tmp_path: Path) -> None:
    """Labels are the classes of the last state by the formula, which a model that forgets would miss."""
    path = layouts.accumulator(tmp_path / "model.onnx")
    steps = numbers(N, STEPS, 8)
    first = np.zeros((N, 4), np.float32) + (start or 0.0) * np.eye(4, dtype=np.float32)[np.arange(N) % 4]
    labels = accumulated(steps, first)[:, -1].argmax(axis=1)
    inputs = {"x": steps} if start is None else {"x": steps, "h_in": first}
    record = checked(
        tmp_path,
        Model.from_onnx(path, state=STATE),
        Dataset.from_arrays(inputs, labels, calibration=8),
        scheme=scheme,
        backend=backend,
        metric=Metric(last_step),
        limits=Limits(max_drop=10.0),
    )
    accuracy = accuracy_of(record)
    assert (accuracy.n, accuracy.reference) == (N - 8, 100.0)
    assert record.status is Status.PASS


class Accumulator(nn.Module):
    """One step of a sequence: the leaky sum of its first inputs, which is fed back."""

    def forward(self, x: torch.Tensor, h_in: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return scores and the sum."""
        h = h_in / 2 + x @ torch.eye(8, 4)
        return h + 0.0, h


@pytest.mark.parametrize("backend", ["ort", "openvino", "torch"])
def test_states_of_a_module_go_from_step_to_step(backend: str, tmp_path: Path) -> None:
    """In files that it is exported to as well, with the axes that the user names."""
    steps = numbers(N, STEPS, 8)
    zeros = torch.zeros(1, 8), torch.zeros(1, 4)
    model = Model.from_torch(Accumulator(), zeros, state={"output_1": "h_in"}, batch_axes={"h_in": 0})
    labels = accumulated(steps)[:, -1].argmax(axis=1)
    dataset = Dataset.from_arrays(steps, labels, calibration=8)
    record = checked(tmp_path, model, dataset, scheme=None, backend=backend, metric=Metric(last_step))
    assert accuracy_of(record).reference == 100.0


def test_ranges_are_those_of_the_states_on_their_way(tmp_path: Path) -> None:
    """A state grows to twice its input; calibrated on first steps alone, it would be cut off at one.

    Inputs near 1 lead to h near 2 - 2 ** -steps, so a cut at 1 would be an error of almost 1.
    """
    path = layouts.accumulator(tmp_path / "model.onnx")
    steps = np.ones((N, 12, 8), np.float32) - 1e-3 * np.arange(N, dtype=np.float32)[:, None, None]
    record = checked(
        tmp_path,
        Model.from_onnx(path, state=STATE),
        Dataset.from_arrays(steps, calibration=4),
        limits=Limits(max_abs_error=0.1),
        options=(("op_types", "all"),),
    )
    accuracy = accuracy_of(record)
    assert accuracy.max_abs_error is not None
    assert accuracy.max_abs_error < 0.1


@pytest.mark.parametrize("axes", [None, {"h_in": 1}, {"h_in": 1, "h_out": 1}])
def test_axes_are_named_as_one_step_has_them(axes: dict[str, int | None] | None, tmp_path: Path) -> None:
    """A state with its layers in front counts samples on axis 1, which is not where they are after all steps."""
    path = layouts.layered_state(tmp_path / "model.onnx")
    steps = numbers(N, STEPS, 8)
    record = checked(
        tmp_path,
        Model.from_onnx(path, state=STATE, batch_axes=axes),
        Dataset.from_arrays(steps, accumulated(steps)[:, -1].argmax(axis=1), calibration=8),
        metric=Metric(last_step),
    )
    assert accuracy_of(record).reference == 100.0


def test_sequences_of_several_lengths(tmp_path: Path) -> None:
    """Equal lengths share a run, and each output meets its own label."""
    path = layouts.accumulator(tmp_path / "model.onnx")
    lengths = np.random.default_rng(0).integers(1, 5, N)
    samples = [numbers(int(length), 8, seed=index) for index, length in enumerate(lengths)]
    labelled = [(sample, int(accumulated(sample[None])[0, -1].argmax())) for sample in samples]
    record = checked(
        tmp_path,
        Model.from_onnx(path, state=STATE),
        Dataset.from_iterable(labelled, calibration=8),
        metric=Metric(last_step),
    )
    assert accuracy_of(record).reference == 100.0


@pytest.mark.parametrize("backend", ["ort", "openvino"])
def test_a_scalar_of_each_step(backend: str, tmp_path: Path) -> None:
    """An input of shape () takes one number of each step: h[t] = h[t - 1] / 2 + rate[t] x[t] w."""
    model = onnx.load(layouts.accumulator(tmp_path / "plain.onnx"))
    model.graph.input.append(onnx.helper.make_tensor_value_info("rate", onnx.TensorProto.FLOAT, []))
    model.graph.node.insert(0, onnx.helper.make_node("Mul", ["x", "rate"], ["scaled"]))
    for node in model.graph.node[1:]:
        node.input[:] = ["scaled" if name == "x" else name for name in node.input]
    onnx.save(model, tmp_path / "model.onnx")
    steps, rates = numbers(N, STEPS, 8), np.arange(1, STEPS + 1, dtype=np.float32)
    labels = accumulated(steps * rates[:, None])[:, -1].argmax(axis=1)
    record = checked(
        tmp_path,
        Model.from_onnx(tmp_path / "model.onnx", state=STATE, batch_axes={"rate": None}),
        Dataset.from_arrays({"x": steps, "rate": np.broadcast_to(rates, (N, STEPS))}, labels, calibration=8),
        backend=backend,
        metric=Metric(last_step),
    )
    assert accuracy_of(record).reference == 100.0


@pytest.mark.parametrize("state", [["h"], {"a": 1}, {"a": "x", "b": "x"}])
def test_a_state_that_is_no_mapping(state: object) -> None:
    """Each input takes one output."""
    make: Callable[..., Model] = Model.from_onnx
    with pytest.raises(UsageError, match="state says which input takes which output"):
        make("m.onnx", state=state)


def test_what_an_engine_tells_of_itself_is_told_of_its_sequences(tmp_path: Path) -> None:
    """Its threads, and the product that built it in the place of its own: figures of that one are not judged."""
    engine = NumpyEngine(EngineSpec("numpy", "fp32", None, Model("net")), layouts.accumulator(tmp_path / "model.onnx"))
    engine.threads, engine.plan_of = 3, "Another"
    rollout = Rollout(engine, tuple(STATE.items()))
    assert (rollout.threads, rollout.plan_of) == (3, "Another")
