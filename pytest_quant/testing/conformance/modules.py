"""The examples as torch modules: the same weights, and submodules named as the nodes are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn

from pytest_quant.spec import Model
from pytest_quant.testing.conformance.examples import Example

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
