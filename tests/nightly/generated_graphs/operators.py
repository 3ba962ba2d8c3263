"""A graph while it grows, each value with the axis that counts samples, and the operators that it is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

SAMPLES = "N"
"""Stands for the sample axis in shapes."""

TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the graph; its shape has ``SAMPLES`` at the axis that counts samples."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str = "float32"

    @property
    def axis(self) -> int | None:
        """The axis that counts samples; ``None`` without one."""
        return self.shape.index(SAMPLES) if SAMPLES in self.shape else None


@dataclass(frozen=True, slots=True)
class Input:
    """An input, and values that it takes: integers below `below`."""

    value: Value
    below: int = 0

    def drawn(self, random: np.random.Generator, n: int) -> NDArray[Any]:
        """Return `n` samples (n, ...), or one value for all where no axis counts samples."""
        sizes = [int(size) for size in self.value.shape if size != SAMPLES]
        shape = sizes if self.value.axis is None else [n, *sizes]
        if self.value.dtype == "float32":
            return np.asarray(random.normal(size=shape), np.float32)
        return np.asarray(random.integers(0, self.below or 2, shape)).astype(self.value.dtype)


@dataclass
class Builder:
    """Collects a graph.

    Attributes
    ----------
    batch : name or size of the sample axis.
    steps : name of the axis of steps where it is free, else its size.
    constant_nodes : weights are ``Constant`` nodes in place of initializers.
    """

    opset: int
    batch: str | int
    seed: int
    constant_nodes: bool
    free: dict[int, str] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        """Start the random numbers of the weights."""
        self.random = np.random.default_rng(self.seed)

    def name(self, stem: str) -> str:
        """Return a name that no other value has."""
        self.count += 1
        return f"{stem}_{self.count}"

    def input(self, stem: str, shape: tuple[int | str, ...], dtype: str = "float32", below: int = 0) -> Value:
        """Add an input of the model."""
        value = Value(self.name(stem), shape, dtype)
        self.inputs.append(Input(value, below))
        return value

    def weight(self, *shape: int) -> str:
        """Add a weight whose products keep the size of what they multiply."""
        scale = 1 / np.sqrt(max(1, np.prod(shape[1:]) if len(shape) > 2 else shape[0]))
        return self.constant(self.random.normal(scale=scale, size=shape).astype(np.float32))

    def constant(self, array: NDArray[Any]) -> str:
        """Add a constant as it is."""
        name = self.name("w")
        tensor = numpy_helper.from_array(array, name)
        if self.constant_nodes:
            self.nodes.append(helper.make_node("Constant", [], [name], name=f"{name}_node", value=tensor))
        else:
            self.weights.append(tensor)
        return name

    def integers(self, *values: int) -> str:
        """Add a vector of int64."""
        return self.constant(np.array(values, np.int64))

    def node(self, op: str, inputs: list[str], *shapes: tuple[int | str, ...], **attributes: Any) -> list[Value]:
        """Add a node with one output for each of `shapes`."""
        outputs = [self.name(op.lower()) for _ in shapes]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=self.name(f"node_{op}"), **attributes))
        return [Value(name, shape) for name, shape in zip(outputs, shapes, strict=True)]

    def single_node(self, op: str, inputs: list[str], shape: tuple[int | str, ...], **attributes: Any) -> Value:
        """Add a node with one output."""
        return self.node(op, inputs, shape, **attributes)[0]

    def axes(
        self, op: str, value: Value, axes: list[int], shape: tuple[int | str, ...], since: int = 13, **more: Any
    ) -> Value:
        """Add a node whose axes became an input in the opset `since`."""
        if self.opset < since:
            return self.single_node(op, [value.name], shape, axes=axes, **more)
        return self.single_node(op, [value.name, self.integers(*axes)], shape, **more)

    def output(self, value: Value, *, stem: str = "out") -> None:
        """Make `value` an output of the model under a name of its own."""
        name = self.name(stem)
        self.nodes.append(helper.make_node("Identity", [value.name], [name], name=self.name("node_Identity")))
        self.outputs.append(Value(name, value.shape, value.dtype))

    def model(self) -> onnx.ModelProto:
        """Return the whole, which the checker has seen."""
        graph = helper.make_graph(
            self.nodes,
            "generated",
            [self._info(each.value) for each in self.inputs],
            [self._info(value) for value in self.outputs],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        onnx.checker.check_model(model)
        return model

    def _info(self, value: Value) -> onnx.ValueInfoProto:
        sizes = [self.batch if size == SAMPLES else self.free.get(int(size), size) for size in value.shape]
        return helper.make_tensor_value_info(value.name, TYPES[value.dtype], sizes)


Operator: TypeAlias = Callable[[Builder, Value], Value]
STEPS, SIDE = 7, 10
"""Sizes of axes that can be free; no other axis has them."""


def _same(op: str, **attributes: Any) -> Operator:
    return lambda b, x: b.single_node(op, [x.name], x.shape, **attributes)


def _clip(b: Builder, x: Value) -> Value:
    low, high = (b.constant(np.array(value, np.float32)) for value in (-0.5, 0.8))
    return b.single_node("Clip", [x.name, low, high], x.shape)


def _add_constant(b: Builder, x: Value) -> Value:
    return b.single_node("Add", [x.name, b.constant(np.array([0.3], np.float32))], x.shape)


def _conv(b: Builder, x: Value) -> Value:
    n, channels, height, width = x.shape
    inputs = [x.name, b.weight(4, int(channels), 3, 3), b.constant(b.random.normal(size=4).astype(np.float32))]
    return b.single_node("Conv", inputs, (n, 4, height, width), pads=[1, 1, 1, 1])


def _conv_relu(b: Builder, x: Value) -> Value:
    result = _conv(b, x)
    return b.single_node("Relu", [result.name], result.shape)


def _batch_norm(b: Builder, x: Value) -> Value:
    channels = int(x.shape[1])
    ones = [b.constant(np.abs(b.random.normal(1, 0.1, channels)).astype(np.float32)) for _ in range(4)]
    return b.single_node("BatchNormalization", [x.name, *ones], x.shape)


def _split_concat(b: Builder, x: Value) -> Value:
    """Cut the features in two and join them the other way round."""
    axis = 1 if len(x.shape) == 4 else len(x.shape) - 1
    size = int(x.shape[axis])
    parts = [size // 2, size - size // 2]
    shapes = [(*x.shape[:axis], part, *x.shape[axis + 1 :]) for part in parts]
    if b.opset < 13:
        first, second = b.node("Split", [x.name], *shapes, axis=axis, split=parts)
    else:
        first, second = b.node("Split", [x.name, b.integers(*parts)], *shapes, axis=axis)
    return b.single_node("Concat", [second.name, first.name], x.shape, axis=axis)


def _matmul(b: Builder, x: Value) -> Value:
    return b.single_node("MatMul", [x.name, b.weight(int(x.shape[-1]), 6)], (*x.shape[:-1], 6))


def _gemm(b: Builder, x: Value) -> Value:
    inputs = [x.name, b.weight(int(x.shape[1]), 6), b.constant(b.random.normal(size=6).astype(np.float32))]
    return b.single_node("Gemm", inputs, (x.shape[0], 6))


def _branches(b: Builder, x: Value) -> Value:
    """Two branches that read a clamped product from outside by its name; a scalar input or a constant chooses."""
    inner = b.single_node("Relu", [_matmul(b, x).name], (*x.shape[:-1], 6))
    weight = b.weight(6, 6)
    flag = b.input("flag", (), "bool").name if b.random.integers(2) else b.constant(np.array(True))
    then, other = _branch("MatMul", [inner.name, weight]), _branch("Neg", [inner.name])
    return b.single_node("If", [flag], inner.shape, then_branch=then, else_branch=other)


def _branch(op: str, inputs: list[str]) -> onnx.GraphProto:
    name = f"{op.lower()}_inside_{inputs[0]}"
    result = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    return helper.make_graph([helper.make_node(op, inputs, [name], name=f"node_{name}")], f"branch_{op}", [], [result])


def _loop(b: Builder, x: Value) -> Value:
    """Twice v = tanh(v w) + x, where w and x come from outside."""
    size = int(x.shape[-1])
    weight, unique = b.weight(size, size), b.name("loop")
    names = {key: f"{unique}_{key}" for key in ("i", "go", "v", "vw", "t", "next", "on")}
    body = helper.make_graph(
        [
            helper.make_node("MatMul", [names["v"], weight], [names["vw"]], name=f"{unique}_matmul"),
            helper.make_node("Tanh", [names["vw"]], [names["t"]], name=f"{unique}_tanh"),
            helper.make_node("Add", [names["t"], x.name], [names["next"]], name=f"{unique}_add"),
            helper.make_node("Identity", [names["go"]], [names["on"]], name=f"{unique}_on"),
        ],
        unique,
        [
            helper.make_tensor_value_info(names["i"], TensorProto.INT64, []),
            helper.make_tensor_value_info(names["go"], TensorProto.BOOL, []),
            helper.make_tensor_value_info(names["v"], TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info(names["on"], TensorProto.BOOL, []),
            helper.make_tensor_value_info(names["next"], TensorProto.FLOAT, None),
        ],
    )
    times, go = b.constant(np.array(2, np.int64)), b.constant(np.array(True))
    return b.single_node("Loop", [times, go, x.name], x.shape, body=body)


def _rate(b: Builder, x: Value) -> Value:
    """A scalar input, such as a sampling rate, that no axis of counts samples."""
    return b.single_node("Mul", [x.name, b.input("rate", ()).name], x.shape)


def _recurrent(op: str, gates: int) -> Operator:
    def add(b: Builder, x: Value) -> Value:
        """All steps; the operator itself takes steps first."""
        hidden, first = 4, x
        if x.axis == 0:
            first = b.single_node("Transpose", [x.name], (x.shape[1], x.shape[0], x.shape[2]), perm=[1, 0, 2])
        weights = [b.weight(1, gates * hidden, int(x.shape[2])), b.weight(1, gates * hidden, hidden)]
        steps = first.shape[0]
        y = b.single_node(op, [first.name, *weights], (steps, 1, SAMPLES, hidden), hidden_size=hidden)
        result = b.axes("Squeeze", y, [1], (steps, SAMPLES, hidden))
        if x.axis == 0:
            result = b.single_node("Transpose", [result.name], (SAMPLES, steps, hidden), perm=[1, 0, 2])
        return result

    return add


def _turn(b: Builder, x: Value) -> Value:
    """From (n, steps, features) to (steps, n, features) or back."""
    return b.single_node("Transpose", [x.name], (x.shape[1], x.shape[0], x.shape[2]), perm=[1, 0, 2])


def _state(b: Builder, x: Value) -> Value:
    """An input with one step in place of all of them, so that samples lie where they do in `x`."""
    steps = 1 - int(x.axis or 0)
    shape = tuple(1 if axis == steps else size for axis, size in enumerate(x.shape))
    return b.single_node("Add", [x.name, b.input("state", shape).name], x.shape)


def _weights_as_input(b: Builder, x: Value) -> Value:
    """A matrix that is one for all samples."""
    matrix = b.input("matrix", (int(x.shape[-1]), 6))
    return b.single_node("MatMul", [x.name, matrix.name], (*x.shape[:-1], 6))


ANY: dict[str, Operator] = {
    "Relu": _same("Relu"),
    "Clip": _clip,
    "Add": _add_constant,
    "Split": _split_concat,
    "rate": _rate,
}
LAST: dict[str, Operator] = {
    "MatMul": _matmul,
    "Softmax": _same("Softmax", axis=-1),
    "If": _branches,
    "Loop": _loop,
    "matrix": _weights_as_input,
}
IMAGE: dict[str, Operator] = ANY | {
    "Conv": _conv,
    "Conv+Relu": _conv_relu,
    "BatchNormalization": _batch_norm,
}
VECTOR: dict[str, Operator] = ANY | LAST | {"Gemm": _gemm}
SEQUENCE: dict[str, Operator] = (
    ANY
    | LAST
    | {
        "LSTM": _recurrent("LSTM", 4),
        "GRU": _recurrent("GRU", 3),
        "turn": _turn,
        "state": _state,
    }
)
