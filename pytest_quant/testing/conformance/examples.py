"""Small ONNX models, each beside the same computation in plain numpy, and the same as torch modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from onnx import numpy_helper

from pytest_quant.backends.base import Feeds, Outputs
from pytest_quant.spec import InputShapes, Model

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Example:
    """A model, what it computes, and inputs for it.

    Attributes
    ----------
    nodes : names of the nodes that a backend may quantize.
    compute : the outputs by plain numpy.
    feeds : ``feeds(n, seed)``, one batch of n samples.
    shapes : of the inputs, where more than the batch is free; for backends that build for shapes.
    """

    name: str
    proto: onnx.ModelProto
    nodes: tuple[str, ...]
    compute: Callable[[Feeds], Outputs]
    feeds: Callable[[int, int], Feeds]
    shapes: tuple[InputShapes, ...] = ()

    def write(self, folder: Path) -> Model:
        """Save the model into `folder`."""
        path = folder / f"{self.name}.onnx"
        onnx.save_model(self.proto, path)
        return Model.from_onnx(path)


def dense(scale: float = 1.0, batch: int | None = None) -> Example:
    """Two dense layers with a ReLU between; `scale` multiplies the weights, `batch` fixes the batch size."""
    first, second = _normal((64, 32), 1, scale / 8), _normal((32, 10), 2, scale / 5)
    bias = _normal((32,), 3, 0.1)
    size = batch or "n"
    proto = _model(
        f"(float[{size}, 64] x) => (float[{size}, 10] y)"
        "{ m = MatMul(x, w1)  a = Add(m, b)  r = Relu(a)  y = MatMul(r, w2) }",
        ["first", "bias", "relu", "second"],
        w1=first,
        w2=second,
        b=bias,
    )

    def compute(feeds: Feeds) -> Outputs:
        return {"y": np.maximum(feeds["x"] @ first + bias, 0.0) @ second}

    return Example("dense", proto, ("first", "second"), compute, lambda n, seed: {"x": _normal((n, 64), seed)})


def conv() -> Example:
    """A 3 x 3 convolution with ReLU, flattened into a dense layer with bias."""
    kernel, bias = _normal((8, 1, 3, 3), 4, 0.3), _normal((8,), 5, 0.1)
    weights, offset = _normal((10, 8 * 36), 6, 0.06), _normal((10,), 7, 0.1)
    proto = _model(
        "(float[n, 1, 8, 8] x) => (float[n, 10] y) { c = Conv<kernel_shape = [3, 3]>(x, k, kb)"
        "  r = Relu(c)  f = Flatten(r)  y = Gemm<transB = 1>(f, w, wb) }",
        ["conv", "relu", "flatten", "dense"],
        k=kernel,
        kb=bias,
        w=weights,
        wb=offset,
    )

    def compute(feeds: Feeds) -> Outputs:
        windows = sliding_window_view(feeds["x"][:, 0], (3, 3), axis=(1, 2))
        maps = np.einsum("nijab,cab->ncij", windows, kernel[:, 0]) + bias[None, :, None, None]
        return {"y": np.maximum(maps, 0.0).reshape(len(maps), -1) @ weights.T + offset}

    return Example("conv", proto, ("conv", "dense"), compute, lambda n, seed: {"x": _normal((n, 1, 8, 8), seed)})


def two_by_two() -> Example:
    """Two inputs and two outputs of different shapes."""
    weights = _normal((16, 12), 8, 0.25)
    proto = _model(
        "(float[n, 16] a, float[n, 16] b) => (float[n, 12] wide, float[n, 16] narrow)"
        "{ s = Add(a, b)  wide = MatMul(s, w)  narrow = Mul(a, b) }",
        ["add", "product", "multiply"],
        w=weights,
    )

    def compute(feeds: Feeds) -> Outputs:
        return {"wide": (feeds["a"] + feeds["b"]) @ weights, "narrow": feeds["a"] * feeds["b"]}

    def feeds(n: int, seed: int) -> Feeds:
        return {"a": _normal((n, 16), seed), "b": _normal((n, 16), seed + 100)}

    return Example("two_by_two", proto, ("product",), compute, feeds)


def tokens(length: int = 6) -> Example:
    """Token numbers (int64) of any length, embedded and projected; `length` is that of the feeds."""
    table, weights = _normal((20, 16), 9), _normal((16, 4), 10, 0.25)
    proto = _model(
        "(int64[n, length] ids) => (float[n, length, 4] y) { e = Gather(table, ids)  y = MatMul(e, w) }",
        ["embed", "project"],
        table=table,
        w=weights,
    )

    def feeds(n: int, seed: int) -> Feeds:
        return {"ids": np.random.default_rng(seed).integers(0, 20, (n, length), dtype=np.int64)}

    shapes = (InputShapes("ids", (1, 1), (1, 6), (64, 16)),)
    return Example("tokens", proto, ("project",), lambda f: {"y": table[f["ids"]] @ weights}, feeds, shapes)


def passthrough() -> Example:
    """The input handed through, and an output that is constant: both tempt a runtime to lend its own memory."""
    constant = _normal((3,), 11)
    proto = _model(
        "(float[n, 4] x) => (float[n, 4] y, float[3] c) { y = Flatten(x)  c = Identity(constant) }",
        ["flatten", "lent"],
        constant=constant,
    )
    return Example(
        "passthrough",
        proto,
        (),
        lambda feeds: {"y": feeds["x"].copy(), "c": constant.copy()},
        lambda n, seed: {"x": _normal((n, 4), seed)},
    )


def unknown_operator() -> onnx.ModelProto:
    """A model with an operator that no runtime has."""
    proto = _model("(float[n, 4] x) => (float[n, 4] y) { y = test.nowhere.NoSuchOperator(x) }", ["strange"])
    proto.opset_import.append(onnx.helper.make_opsetid("test.nowhere", 1))
    return proto


def _model(graph: str, names: list[str], **weights: Floats) -> onnx.ModelProto:
    """Return the model of a graph in ONNX's textual syntax, which has no names of nodes in old versions."""
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> example ' + graph)
    for node, name in zip(proto.graph.node, names, strict=True):
        node.name = name
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return proto


def _normal(shape: tuple[int, ...], seed: int, scale: float = 1.0) -> Floats:
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def module_model(example: Example) -> Model:
    """Return the example as a module, with two samples, or as many as its batch size is fixed to.

    It has the same weights, and its layers are called as the nodes are.
    """
    import torch

    weights = {
        tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy())
        for tensor in example.proto.graph.initializer
    }
    # A class for each, since PyTorch's tracer and the names of inputs go by the class's own `forward`.
    module: Any = type(example.name, (torch.nn.Module,), {"forward": _FORWARDS[example.name]})()
    for name, layer in _layers(example.name, weights).items():
        if isinstance(layer, torch.nn.Module):
            setattr(module, name, layer)
        else:
            module.register_buffer(name, layer)
    sizes = [dim.dim_value for dim in example.proto.graph.input[0].type.tensor_type.shape.dim]
    inputs = tuple(torch.from_numpy(array) for array in example.feeds(sizes[0] or 2, 0).values())
    dynamic: bool | dict[str, tuple[int, ...]] = {"ids": (0, 1)} if example.name == "tokens" else sizes[0] == 0
    return Model.from_torch(module, inputs, dynamic=dynamic, name=example.name)


_FORWARDS: dict[str, Callable[..., dict[str, Any]]] = {
    "dense": lambda self, x: {"y": self.second(self.first(x).relu())},
    "conv": lambda self, x: {"y": self.dense(self.conv(x).relu().flatten(1))},
    "two_by_two": lambda self, a, b: {"wide": self.product(a + b), "narrow": a * b},
    "tokens": lambda self, ids: {"y": self.project(self.embed(ids))},
    "passthrough": lambda self, x: {"y": x.flatten(1), "c": self.constant},
}


def _layers(name: str, weights: dict[str, Any]) -> dict[str, Any]:
    from torch import nn

    def linear(weight: Any, bias: Any = None) -> nn.Linear:
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
        layer.load_state_dict({"weight": weight} if bias is None else {"weight": weight, "bias": bias})
        return layer

    if name == "dense":
        return {"first": linear(weights["w1"].T, weights["b"]), "second": linear(weights["w2"].T)}
    if name == "conv":
        layer = nn.Conv2d(1, 8, 3)
        layer.load_state_dict({"weight": weights["k"], "bias": weights["kb"]})
        return {"conv": layer, "dense": linear(weights["w"], weights["wb"])}
    if name == "two_by_two":
        return {"product": linear(weights["w"].T)}
    if name == "tokens":
        return {"embed": nn.Embedding.from_pretrained(weights["table"]), "project": linear(weights["w"].T)}
    return {"constant": weights["constant"]}
