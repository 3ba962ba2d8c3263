"""A float ONNX graph as plants see it: who makes and who reads a tensor, and which products stand next to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from pytest_quant.backends.onnx_files.graphs import all_graphs, refill

PRODUCTS = frozenset({"Conv", "ConvTranspose", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RNN"})
"""Operators that multiply and add; nothing else is called a layer."""

WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


class Graph:
    """The main graph of a model, its constants as initializers and each of its nodes with a name.

    Parameters
    ----------
    model : it is changed.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        graph = model.graph
        kept = []
        for node in graph.node:
            value = next((each.t for each in node.attribute if each.name == "value"), None)
            if node.op_type == "Constant" and value is not None:
                graph.initializer.append(value)
                graph.initializer[-1].name = node.output[0]
                continue
            node.name = node.name or f"node_of_{node.output[0]}"
            kept.append(node)
        refill(graph.node, kept)
        constants = {tensor.name for tensor in graph.initializer}
        # Files of older opsets list their weights among the inputs.
        refill(graph.input, [value for value in graph.input if value.name not in constants])
        self.refresh()

    @classmethod
    def load(cls, path: Path) -> Graph:
        """Read a file."""
        return cls(onnx.load(path))

    def save(self, path: Path) -> None:
        """Write a file, without constants that nobody reads any more."""
        read = {name for graph in all_graphs(self.model.graph) for node in graph.node for name in node.input}
        kept = [tensor for tensor in self.model.graph.initializer if tensor.name in read | {*self.outputs}]
        refill(self.model.graph.initializer, kept)
        onnx.save(self.model, path)

    def refresh(self) -> None:
        """Look at the nodes anew after some were changed."""
        graph = self.model.graph
        self.nodes = list(graph.node)
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.outputs = [value.name for value in graph.output]
        self.makers = {name: node for node in self.nodes for name in node.output if name}
        self.readers: Mapping[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in self.nodes:
            for name in dict.fromkeys(node.input):
                self.readers[name].append(node)

    def array(self, name: str) -> NDArray[Any] | None:
        """Return a constant, ``None`` for what is computed."""
        return numpy_helper.to_array(self.constants[name]).copy() if name in self.constants else None

    def replace(self, node: onnx.NodeProto, place: int, array: NDArray[Any]) -> None:
        """Let `node` alone read `array` at an input."""
        own = f" of {node.name}"
        name = f"{node.input[place].removesuffix(own)}{own}"
        if name in self.constants:
            self.constants[name].CopyFrom(numpy_helper.from_array(array, name))
        else:
            self.model.graph.initializer.append(numpy_helper.from_array(array, name))
            self.constants[name] = self.model.graph.initializer[-1]
        if node in self.readers[node.input[place]]:
            self.readers[node.input[place]].remove(node)
        node.input[place] = name

    def computed(self, node: onnx.NodeProto) -> list[str]:
        """Return the inputs of `node` that are not constant."""
        return [name for name in dict.fromkeys(node.input) if name and name not in self.constants]

    def weighted(self) -> Iterator[onnx.NodeProto]:
        """Yield the products with constant weights of one float type."""
        for node in self.nodes:
            weight = self.constants.get(node.input[1]) if len(node.input) > 1 else None
            if node.op_type in WEIGHTED and weight is not None and weight.data_type == onnx.TensorProto.FLOAT:
                yield node

    def near(self, tensor: str) -> tuple[str, ...]:
        """Return the names of the products that make `tensor` or read it, which fewest other operators lie before."""
        made = [self.makers[tensor]] if tensor in self.makers else []
        above = self._nearest(made, lambda node: [self.makers[name] for name in node.input if name in self.makers])
        below = self._nearest(
            self.readers[tensor], lambda node: [each for out in node.output for each in self.readers[out]]
        )
        return tuple(dict.fromkeys([*above, *below]))

    def _nearest(
        self, nodes: list[onnx.NodeProto], beyond: Callable[[onnx.NodeProto], list[onnx.NodeProto]]
    ) -> list[str]:
        while nodes := list({id(node): node for node in nodes}.values()):
            if found := [node.name for node in nodes if node.op_type in PRODUCTS]:
                return found
            nodes = [each for node in nodes for each in beyond(node)]
        return []


def attribute(node: onnx.NodeProto, name: str, otherwise: Any) -> Any:
    """Return an attribute of a node, or `otherwise`."""
    return next((onnx.helper.get_attribute_value(each) for each in node.attribute if each.name == name), otherwise)


def largest_difference(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the largest difference of two outputs as a share of the largest value."""
    largest = float(np.abs(first).max(initial=0.0))
    return float(np.abs(first.astype(np.float64) - second).max(initial=0.0)) / max(largest, 1e-30)


def is_called(name: str, wanted: str) -> bool:
    """Whether a name of a node is `wanted`, or what an optimizer made of it."""
    return name == wanted or name in {f"{wanted}{end}" for end in ("/MatMulAddFusion", "_MatMul", "_Add", "/bias")}
