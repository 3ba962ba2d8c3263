"""Shapes of the tensors inside a graph, for inputs of known shapes, and the bytes of the largest tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import onnx
from onnx import helper, shape_inference

from pytest_quant.backends.onnx_files import read_nodes
from pytest_quant.backends.onnx_files.graphs import all_graphs
from pytest_quant.errors import ModelFileError
from pytest_quant.spec import Shape


def infer_shapes(model: onnx.ModelProto, shapes: Mapping[str, Shape]) -> onnx.ModelProto:
    """Return the model with all shapes that ONNX infers from `shapes` of its inputs, by name.

    Shapes that are written in the file may have free axes, and are forgotten.

    Raises
    ------
    onnx.shape_inference.InferenceError : the operators do not go together.
    """
    for value in model.graph.input:
        if value.name in shapes:
            sizes = [onnx.TensorShapeProto.Dimension(dim_value=size) for size in shapes[value.name]]
            value.type.tensor_type.shape.CopyFrom(onnx.TensorShapeProto(dim=sizes))
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return shape_inference.infer_shapes(model, data_prop=True)


def known_shapes(graph: onnx.GraphProto) -> dict[str, Shape]:
    """Return the shapes that are written in `graph`, by tensor name; those with a free axis are left out."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        sizes = value.type.tensor_type.shape.dim
        if value.type.tensor_type.HasField("shape") and all(size.HasField("dim_value") for size in sizes):
            shapes.setdefault(value.name, tuple(size.dim_value for size in sizes))
    return shapes


def largest_tensor(path: Path, shapes: Mapping[str, Shape]) -> int:
    """Return the bytes of the largest tensor that nodes of the model in `path` give, bodies of loops included.

    Parameters
    ----------
    path : an ONNX file.
    shapes : of the inputs of one run, by name.

    Returns
    -------
    The bytes; of those that shape inference finds, 0 where it finds none or the file cannot be read.
    """
    try:
        graphs = list(all_graphs(infer_shapes(read_nodes(path), shapes).graph))
    except (ModelFileError, shape_inference.InferenceError):
        return 0
    tensors = (value.type.tensor_type for graph in graphs for value in (*graph.value_info, *graph.output))
    # A free axis counts as 0.
    sizes = [
        math.prod(size.dim_value for size in tensor.shape.dim)
        * helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize
        for tensor in tensors
        if tensor.elem_type and tensor.HasField("shape")
    ]
    return max(sizes, default=0)
