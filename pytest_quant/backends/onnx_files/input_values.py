"""What an ONNX graph says about the values of its inputs beyond dtype and fixed sizes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx

from pytest_quant.backends.onnx_files.read import read_graph

_HAND_ON = {"Cast", "Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators whose output holds values of their first input; ``Concat`` of all of them."""


def read_axis_names(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the symbolic names of every input's axes; an empty name where an axis is fixed or has none.

    An input whose rank the graph does not tell is left out. Raises `ModelError`, see `read_graph`.
    """
    graph = read_graph(path).graph
    return {
        value.name: tuple(dim.dim_param for dim in value.type.tensor_type.shape.dim)
        for value in graph.input
        if value.type.tensor_type.HasField("shape")
    }


def read_table_rows(path: Path) -> dict[str, int]:
    """Return for inputs that index an embedding table its number of rows; the smallest where there are several.

    A table is a constant that a ``Gather`` reads at the values of the input, whatever shape they are brought
    into before. Values that were computed from an input are not followed. Raises `ModelError`, see `read_graph`.
    """
    graph = read_graph(path).graph
    shapes = dict(_constant_shapes(graph))
    source = {value.name: {value.name} for value in graph.input if value.name not in shapes}
    rows: dict[str, int] = {}
    for node in _nodes(graph):
        if node.op_type == "Gather" and node.input[0] in shapes:
            size = shapes[node.input[0]][_axis(node)]
            for name in source.get(node.input[1], ()):
                rows[name] = min(size, rows.get(name, size))
        elif node.op_type in _HAND_ON:
            handed = node.input if node.op_type == "Concat" else node.input[:1]
            source[node.output[0]] = set().union(*(source.get(name, set()) for name in handed))
    return rows


def _axis(node: onnx.NodeProto) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """All nodes, those of subgraphs too, which read values of the graphs around them by name."""
    for node in graph.node:
        yield node
        for inner in _subgraphs(node):
            yield from _nodes(inner)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        yield from (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs)


def _constant_shapes(graph: onnx.GraphProto) -> Iterator[tuple[str, tuple[int, ...]]]:
    for tensor in graph.initializer:
        yield tensor.name, tuple(tensor.dims)
    for node in graph.node:
        if node.op_type == "Constant":
            yield from ((node.output[0], tuple(a.t.dims)) for a in node.attribute if a.name == "value")
        for inner in _subgraphs(node):
            yield from _constant_shapes(inner)
