"""Embedding tables: how many rows the tables have that inputs of an ONNX graph index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx

from pytest_quant.backends.onnx_files.nested import all_nodes, graphs_in
from pytest_quant.backends.onnx_files.read import read_graph

_HAND_ON = {"Cast", "Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators whose output holds values of their first input; ``Concat`` of all of them."""


def read_table_rows(path: Path) -> dict[str, int]:
    """Return for inputs that index an embedding table its number of rows; the smallest where there are several.

    A table is a constant that a ``Gather`` reads at the values of the input, whatever shape they are brought
    into before. Values that were computed from an input are not followed. Raises `ModelError`, see `read_graph`.
    """
    model = read_graph(path)
    shapes = dict(_constant_shapes(model))
    source = {value.name: {value.name} for value in model.graph.input if value.name not in shapes}
    rows: dict[str, int] = {}
    for node in all_nodes(model):
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


def _constant_shapes(model: onnx.ModelProto) -> Iterator[tuple[str, tuple[int, ...]]]:
    for graph in graphs_in(model):
        yield from ((tensor.name, tuple(tensor.dims)) for tensor in graph.initializer)
    for node in all_nodes(model):
        if node.op_type == "Constant":
            yield from ((node.output[0], tuple(a.t.dims)) for a in node.attribute if a.name == "value")
