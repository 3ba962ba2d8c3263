"""Graphs of ONNX with those inside them: their nodes, and the names that they define, read and share."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
import onnx

STANDARD = ("", "ai.onnx")
"""How the domain of the standard operators is spelled."""

PASSING = ("Clip", "Flatten", "MaxPool", "Relu", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that hand 8-bit values on as they are, so that none rounds by itself."""


def bodies_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that `node` holds, not those inside them."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield `graph` and every graph inside it, an outer one before those that it holds."""
    yield graph
    for node in graph.node:
        for body in bodies_of(node):
            yield from all_graphs(body)


def graphs_in(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield every graph of `model`, those inside its functions too."""
    yield from all_graphs(model.graph)
    for function in model.functions:
        for node in function.node:
            for body in bodies_of(node):
                yield from all_graphs(body)


def all_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield every node of `model`: of every graph and of its functions."""
    for holder in (*graphs_in(model), *model.functions):
        yield from holder.node


def opened_size(model: onnx.ModelProto) -> float:
    """Return what a runtime makes of `model` before it runs: a thousand for each node, and numbers made of constants.

    Functions are inlined, each as often as it is called; infinity where one calls itself.
    """
    holders = {(each.domain, each.name): onnx.GraphProto(node=each.node) for each in model.functions}
    holders["", ""] = model.graph
    nodes = {name: [node for graph in all_graphs(holders[name]) for node in graph.node] for name in holders}
    calls = {name: Counter((node.domain, node.op_type) for node in nodes[name]) for name in nodes}
    sizes: dict[tuple[str, str], int] = {}
    try:
        for name in TopologicalSorter(calls).static_order():
            sizes[name] = sum(n * sizes[each] for each, n in calls[name].items()) if name in calls else 1000
    except CycleError:
        return math.inf
    # The last input of all but constants says how large their output is.
    growing = {"Constant", "ConstantOfShape", "Expand", "Tile"}
    every = [node for listed in nodes.values() for node in listed if node.op_type in growing]
    values = {tensor.name: tensor for graph in graphs_in(model) for tensor in graph.initializer}
    values |= {node.output[0]: node.attribute[0].t for node in every if node.output and node.attribute}
    shapes = [values[node.input[-1]] for node in every if node.input and values.keys() >= set(node.input)]
    packed = [(shape.raw_data[: len(shape.raw_data) // 8 * 8], shape.int64_data) for shape in shapes]
    axes: list[Sequence[int]] = [np.frombuffer(raw, "<i8").tolist() or listed for raw, listed in packed]
    return sizes["", ""] + sum(math.prod(max(1, size) for size in listed) for listed in axes)


def defined_names(graph: onnx.GraphProto) -> set[str]:
    """Return the names that `graph` itself gives a value; graphs inside it do not count."""
    names = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    names |= {tensor.values.name for tensor in graph.sparse_initializer}
    return names | {name for node in graph.node for name in node.output}


def captured_names(node: onnx.NodeProto) -> set[str]:
    """Return the names that the bodies of `node`, and bodies inside them, read from outside."""
    return {name for body in bodies_of(node) for name in _read_names(body) - defined_names(body)}


def _read_names(graph: onnx.GraphProto) -> set[str]:
    read = {value.name for value in graph.output}
    for node in graph.node:
        read |= set(node.input) | captured_names(node)
    return read - {""}


def rename_reads(nodes: Iterable[onnx.NodeProto], names: Mapping[str, str]) -> None:
    """Let `nodes` read tensors by their new `names`, in their bodies too, as far as a body has none of that name."""
    for node in nodes:
        for place, name in enumerate(node.input):
            if name in names:
                node.input[place] = names[name]
        rename_captured(node, names)


def rename_captured(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Let the bodies of `node`, and not the node itself, read tensors by their new `names`."""
    for body in bodies_of(node):
        inside = {old: new for old, new in names.items() if old not in defined_names(body)}
        if inside:
            rename_reads(body.node, inside)
            for value in body.output:
                value.name = inside.get(value.name, value.name)


def fresh_name(wanted: str, taken: set[str]) -> str:
    """Return `wanted`, or that with the first number that no name in `taken` has, and add it to `taken`."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name


def constant_names(graph: onnx.GraphProto) -> set[str]:
    """Return the names of the tensors whose values `graph` itself holds."""
    return {tensor.name for tensor in graph.initializer}


def scopes(graph: onnx.GraphProto, outer: Collection[str] = ()) -> Iterator[tuple[onnx.GraphProto, set[str]]]:
    """Yield `graph` and every graph inside it, each with the names of the constants that its nodes can read.

    Constants are what a graph holds, what it computes from constants alone, and those `outer` ones of the graphs around
    it whose names it does not give to something else.
    """
    constants = (set(outer) - defined_names(graph)) | constant_names(graph)
    for node in graph.node:
        read = {*filter(None, node.input), *captured_names(node)}
        if node.op_type == "Constant" or (read and constants.issuperset(read)):
            constants.update(node.output)
    yield graph, constants
    for node in graph.node:
        for body in bodies_of(node):
            yield from scopes(body, constants)


def dequantizer_of(tensor: str, makers: Mapping[str, onnx.NodeProto]) -> onnx.NodeProto | None:
    """Return the DequantizeLinear that gives the values of `tensor`, moved perhaps; ``None`` if no node does.

    `makers` has the node that gives each tensor.
    """
    node = makers.get(tensor)
    while node is not None and node.op_type in PASSING and node.input:
        node = makers.get(node.input[0])
    return node if node is not None and node.op_type == "DequantizeLinear" else None


FLOAT_BYTES = {onnx.TensorProto.FLOAT: 4, onnx.TensorProto.FLOAT16: 2, onnx.TensorProto.BFLOAT16: 2}
"""Bytes of one value, by the type of a tensor in float."""


def float_bytes(graph: onnx.GraphProto) -> Counter[str]:
    """Return the bytes of all constants in float of `graph` and the graphs inside it, by the nodes that read them."""
    readers: defaultdict[str, list[str]] = defaultdict(list)
    sizes: Counter[str] = Counter()
    for node in (node for inner in all_graphs(graph) for node in inner.node):
        for name in set(node.input):
            readers[name].append(f"{node.name or node.output[0]} ({node.op_type})")
    tensors = (tensor for inner in all_graphs(graph) for tensor in inner.initializer)
    for tensor in (tensor for tensor in tensors if tensor.data_type in FLOAT_BYTES):
        sizes[" and ".join(readers[tensor.name]) or "nothing"] += math.prod(tensor.dims) * FLOAT_BYTES[tensor.data_type]
    return sizes


def refill(field: Any, entries: Iterable[Any]) -> None:
    """Let a repeated field of a message, the nodes of a graph for example, have `entries`, some of its own perhaps."""
    entries = list(entries)
    del field[:]
    field.extend(entries)


def opset_of(model: onnx.ModelProto) -> int:
    """Return the version of the standard operators; 0 for a model that imports none."""
    return max((entry.version for entry in model.opset_import if entry.domain in STANDARD), default=0)
