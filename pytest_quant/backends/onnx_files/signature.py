"""Inputs and outputs of an ONNX model, and the embedding tables that inputs index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx

from pytest_quant.backends.onnx_files.read import all_nodes, graphs_in, read_graph
from pytest_quant.errors import ModelError
from pytest_quant.spec import Signature, TensorInfo

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


def read_signature(path: Path) -> Signature:
    """Return the inputs and outputs of the model in `path`; symbolic and unknown sizes are ``None``.

    Raises
    ------
    ModelError : see `read_graph`; or an input or output is not a tensor.
    """
    graph = read_graph(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    return Signature(
        inputs=tuple(_tensor(value, path) for value in graph.input if value.name not in constants),
        outputs=tuple(_tensor(value, path) for value in graph.output),
    )


def _tensor(value: onnx.ValueInfoProto, path: Path) -> TensorInfo:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type" or not value.type.tensor_type.elem_type:
        raise ModelError(
            f"'{value.name}' of {path.name} is not a tensor",
            value="no type at all" if kind in (None, "tensor_type") else str(kind),
            allowed="tensors as inputs and outputs",
            fix="cut the model before the node that makes it; for a ZipMap of skl2onnx: options={'zipmap': False}",
        )
    tensor = value.type.tensor_type
    dtype = str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    if not tensor.HasField("shape"):
        return TensorInfo(value.name, dtype, None)
    dims = tensor.shape.dim
    return TensorInfo(value.name, dtype, tuple(_size(dim) for dim in dims), tuple(dim.dim_param for dim in dims))


def _size(dim: onnx.TensorShapeProto.Dimension) -> int | None:
    """Some exporters write a free axis as -1."""
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
