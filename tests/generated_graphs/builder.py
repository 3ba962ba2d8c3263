"""A graph while it grows: nodes, weights, inputs and outputs, each with the axis that counts samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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

    def one(self, op: str, inputs: list[str], shape: tuple[int | str, ...], **attributes: Any) -> Value:
        """Add a node with one output."""
        return self.node(op, inputs, shape, **attributes)[0]

    def axes(
        self, op: str, value: Value, axes: list[int], shape: tuple[int | str, ...], since: int = 13, **more: Any
    ) -> Value:
        """Add a node whose axes became an input in the opset `since`."""
        if self.opset < since:
            return self.one(op, [value.name], shape, axes=axes, **more)
        return self.one(op, [value.name, self.integers(*axes)], shape, **more)

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
            [self._info(one.value) for one in self.inputs],
            [self._info(value) for value in self.outputs],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        onnx.checker.check_model(model)
        return model

    def _info(self, value: Value) -> onnx.ValueInfoProto:
        sizes = [self.batch if size == SAMPLES else self.free.get(int(size), size) for size in value.shape]
        return helper.make_tensor_value_info(value.name, TYPES[value.dtype], sizes)
