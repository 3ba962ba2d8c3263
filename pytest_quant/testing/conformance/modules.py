"""The examples of the conformance suite as torch modules, whole and broken."""

# ruff: noqa: S101

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn

from pytest_quant.backends.base import Backend
from pytest_quant.errors import ModelError, UsageError
from pytest_quant.spec import Model
from pytest_quant.testing.conformance.examples import Example, dense
from pytest_quant.testing.conformance.workbench import Workbench, float_spec

Weights = dict[str, NDArray[Any]]
Answer = dict[str, Tensor]


class Dense(nn.Module):
    """Two dense layers with a ReLU between."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.first = _linear(weights["w1"].T, weights["b"])
        self.second = _linear(weights["w2"].T)

    def forward(self, x: Tensor) -> Answer:
        """Map (n, 64) to (n, 10)."""
        return {"y": self.second(torch.relu(self.first(x)))}


class Convolution(nn.Module):
    """A convolution with ReLU, flattened into a dense layer."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.conv.weight.data = torch.from_numpy(weights["k"].copy())
        self.conv.bias = nn.Parameter(torch.from_numpy(weights["kb"].copy()))
        self.dense = _linear(weights["w"], weights["wb"])

    def forward(self, x: Tensor) -> Answer:
        """Map (n, 1, 8, 8) to (n, 10)."""
        return {"y": self.dense(torch.relu(self.conv(x)).flatten(1))}


class TwoByTwo(nn.Module):
    """Two inputs and two outputs."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.product = _linear(weights["w"].T)

    def forward(self, a: Tensor, b: Tensor) -> Answer:
        """Map two (n, 16) to (n, 12) and (n, 16)."""
        return {"wide": self.product(a + b), "narrow": a * b}


class Tokens(nn.Module):
    """Token numbers, embedded and projected."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.embed = nn.Embedding.from_pretrained(torch.from_numpy(weights["table"].copy()))
        self.project = _linear(weights["w"].T)

    def forward(self, ids: Tensor) -> Answer:
        """Map (n, length) to (n, length, 4)."""
        return {"y": self.project(self.embed(ids))}


class Passthrough(nn.Module):
    """The input handed through, and a constant."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.register_buffer("constant", torch.from_numpy(weights["constant"].copy()))

    def forward(self, x: Tensor) -> Answer:
        """Map (n, 4) to itself and to (3,)."""
        return {"y": x.flatten(1), "c": self.get_buffer("constant")}


_MODULES: dict[str, Callable[[Weights], nn.Module]] = {
    "dense": Dense,
    "conv": Convolution,
    "two_by_two": TwoByTwo,
    "tokens": Tokens,
    "passthrough": Passthrough,
}


def module_model(example: Example) -> Model:
    """Return the example as a module, with two samples, or as many as its batch size is fixed to."""
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in example.proto.graph.initializer}
    sizes = [dim.dim_value for dim in example.proto.graph.input[0].type.tensor_type.shape.dim]
    feeds = example.feeds(sizes[0] or 2, 0)
    dynamic: bool | dict[str, tuple[int, ...]] = sizes[0] == 0
    if example.name == "tokens":
        dynamic = {"ids": (0, 1)}
    inputs = tuple(torch.from_numpy(array) for array in feeds.values())
    return Model.from_torch(_MODULES[example.name](weights), inputs, dynamic=dynamic, name=example.name)


def _linear(weight: NDArray[Any], bias: NDArray[Any] | None = None) -> nn.Linear:
    """Return a layer with weights (out, in)."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.weight.data = torch.from_numpy(weight.copy())
    if bias is not None:
        layer.bias.data = torch.from_numpy(bias.copy())
    return layer


class ModuleTests(Workbench):
    """What is not a module with inputs for it is an error that says what was given."""

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

    def test_no_example_inputs(self, backend: Backend) -> None:
        """A module without a tuple of tensors cannot be traced."""
        import torch

        examples: tuple[Any, ...] = ((), torch.zeros(2, 4), ([1.0],))
        for example_inputs in examples:
            with pytest.raises(ModelError, match="tuple of tensors"):
                backend.signature(Model.from_torch(torch.nn.Linear(4, 2), example_inputs))

    def test_inputs_that_do_not_fit(self, backend: Backend) -> None:
        """A module that raises on its own example inputs is a ModelError with what it raised."""
        import torch

        with pytest.raises(ModelError, match="shapes cannot be multiplied"):
            backend.signature(Model.from_torch(torch.nn.Linear(4, 2), (torch.zeros(2, 5),)))

    def test_outputs_that_are_not_tensors(self, backend: Backend) -> None:
        """Something that cannot be compared is a ModelError."""
        import torch

        class Sizes(torch.nn.Module):
            def forward(self, x: Any) -> object:
                """Return a number."""
                return x.shape[0]

        with pytest.raises(ModelError, match="not tensors"):
            backend.signature(Model.from_torch(Sizes(), (torch.zeros(2, 4),)))

    def test_the_users_module_is_left_alone(self, backend: Backend) -> None:
        """It stays in training mode, and its statistics as they were."""
        import torch

        statistics = torch.nn.BatchNorm1d(4)
        module = torch.nn.Sequential(torch.nn.Linear(4, 4), statistics, torch.nn.Dropout())
        before = statistics.state_dict()["running_mean"].clone()
        found = backend.signature(Model.from_torch(module, (torch.ones(3, 4),)))
        assert found.inputs[0].shape == (None, 4)
        assert module.training
        assert torch.equal(statistics.state_dict()["running_mean"], before)
