"""Inputs and outputs of an ONNX model, read from its graph."""

from __future__ import annotations

from pathlib import Path

import onnx

from pytest_quant.backends.onnx_files.read import read_graph
from pytest_quant.errors import ModelError
from pytest_quant.spec import Signature, TensorInfo


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
