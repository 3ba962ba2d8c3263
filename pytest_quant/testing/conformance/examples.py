"""Small ONNX models, each beside the same computation in plain numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from pytest_quant.backends.base import Feeds, Outputs
from pytest_quant.spec import InputShapes, Model

_OPSET = 17
_IR_VERSION = 8
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
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["m"], name="first"),
        helper.make_node("Add", ["m", "b"], ["a"], name="bias"),
        helper.make_node("Relu", ["a"], ["r"], name="relu"),
        helper.make_node("MatMul", ["r", "w2"], ["y"], name="second"),
    ]
    size = "n" if batch is None else batch
    proto = _model(nodes, {"x": ["n" if batch is None else batch, 64]}, {"y": [size, 10]}, w1=first, w2=second, b=bias)

    def compute(feeds: Feeds) -> Outputs:
        return {"y": np.maximum(feeds["x"] @ first + bias, 0.0) @ second}

    return Example("dense", proto, ("first", "second"), compute, lambda n, seed: {"x": _normal((n, 64), seed)})


def conv() -> Example:
    """A 3 x 3 convolution with ReLU, flattened into a dense layer with bias."""
    kernel, bias = _normal((8, 1, 3, 3), 4, 0.3), _normal((8,), 5, 0.1)
    weights, offset = _normal((10, 8 * 36), 6, 0.06), _normal((10,), 7, 0.1)
    nodes = [
        helper.make_node("Conv", ["x", "k", "kb"], ["c"], name="conv", kernel_shape=[3, 3]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Flatten", ["r"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "w", "wb"], ["y"], name="dense", transB=1),
    ]
    proto = _model(nodes, {"x": ["n", 1, 8, 8]}, {"y": ["n", 10]}, k=kernel, kb=bias, w=weights, wb=offset)

    def compute(feeds: Feeds) -> Outputs:
        windows = sliding_window_view(feeds["x"][:, 0], (3, 3), axis=(1, 2))
        maps = np.einsum("nijab,cab->ncij", windows, kernel[:, 0]) + bias[None, :, None, None]
        return {"y": np.maximum(maps, 0.0).reshape(len(maps), -1) @ weights.T + offset}

    return Example("conv", proto, ("conv", "dense"), compute, lambda n, seed: {"x": _normal((n, 1, 8, 8), seed)})


def two_by_two() -> Example:
    """Two inputs and two outputs of different shapes."""
    weights = _normal((16, 12), 8, 0.25)
    nodes = [
        helper.make_node("Add", ["a", "b"], ["s"], name="add"),
        helper.make_node("MatMul", ["s", "w"], ["wide"], name="product"),
        helper.make_node("Mul", ["a", "b"], ["narrow"], name="multiply"),
    ]
    proto = _model(nodes, {"a": ["n", 16], "b": ["n", 16]}, {"wide": ["n", 12], "narrow": ["n", 16]}, w=weights)

    def compute(feeds: Feeds) -> Outputs:
        return {"wide": (feeds["a"] + feeds["b"]) @ weights, "narrow": feeds["a"] * feeds["b"]}

    def feeds(n: int, seed: int) -> Feeds:
        return {"a": _normal((n, 16), seed), "b": _normal((n, 16), seed + 100)}

    return Example("two_by_two", proto, ("product",), compute, feeds)


def tokens(length: int = 6) -> Example:
    """Token numbers (int64) of any length, embedded and projected; `length` is that of the feeds."""
    table, weights = _normal((20, 16), 9), _normal((16, 4), 10, 0.25)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"], name="embed"),
        helper.make_node("MatMul", ["e", "w"], ["y"], name="project"),
    ]
    proto = _model(
        nodes, {"ids": ["n", "length"]}, {"y": ["n", "length", 4]}, TensorProto.INT64, table=table, w=weights
    )

    def feeds(n: int, seed: int) -> Feeds:
        return {"ids": np.random.default_rng(seed).integers(0, 20, (n, length), dtype=np.int64)}

    shapes = (InputShapes("ids", (1, 1), (1, 6), (64, 16)),)
    return Example("tokens", proto, ("project",), lambda f: {"y": table[f["ids"]] @ weights}, feeds, shapes)


def passthrough() -> Example:
    """The input handed through, and an output that is constant: both tempt a runtime to lend its own memory."""
    constant = _normal((3,), 11)
    nodes = [
        helper.make_node("Flatten", ["x"], ["y"], name="flatten"),
        helper.make_node("Identity", ["constant"], ["c"], name="lent"),
    ]
    proto = _model(nodes, {"x": ["n", 4]}, {"y": ["n", 4], "c": [3]}, constant=constant)
    return Example(
        "passthrough",
        proto,
        (),
        lambda feeds: {"y": feeds["x"].copy(), "c": constant.copy()},
        lambda n, seed: {"x": _normal((n, 4), seed)},
    )


def unknown_operator() -> onnx.ModelProto:
    """A model with an operator that no runtime has."""
    nodes = [helper.make_node("NoSuchOperator", ["x"], ["y"], name="strange", domain="test.nowhere")]
    proto = _model(nodes, {"x": ["n", 4]}, {"y": ["n", 4]})
    proto.opset_import.append(helper.make_opsetid("test.nowhere", 1))
    return proto


def _model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int | str]],
    outputs: dict[str, list[int | str]],
    dtype: int = TensorProto.FLOAT,
    **weights: Floats,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "example",
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)


def _normal(shape: tuple[int, ...], seed: int, scale: float = 1.0) -> Floats:
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)
