"""Products of a model, with the multiply-accumulates that they take for given inputs: from the file, without a run."""

from __future__ import annotations

from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import shape_inference

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.onnx_files import size_bytes
from pytest_quant.backends.onnx_files.graphs import constant_names
from pytest_quant.backends.onnx_files.normalize import normalized
from pytest_quant.backends.ort.macs import FLOAT_OPS, Operand, RanNode, macs_of
from pytest_quant.backends.ort.prepare import tools_without_torch
from pytest_quant.backends.runtime import quiet

_INFERRED_BYTES = 1_500_000_000
"""Shape inference hands the model over as one protobuf message, which ends at 2 GB."""


@dataclass(frozen=True, slots=True)
class Product:
    """A node that multiplies and accumulates.

    Attributes
    ----------
    aliases : names of its outputs, and name and output of the bias that is added to it.
    macs : its multiply-accumulates; ``None`` where they do not follow from its shapes.
    reads_levels : one of its operands comes from a DequantizeLinear, so it may run in integers.
    """

    name: str
    aliases: tuple[str, ...]
    macs: int | None
    reads_levels: bool = False

    def is_called(self, kernel: str) -> bool:
        """Tell whether a kernel of that name is this node: OpenVINO takes one of its names, or appends to it."""
        return any(kernel == name or kernel.startswith(f"{name}/") for name in (self.name, *self.aliases) if name)


def find_products(path: Path, feeds: Feeds) -> list[Product]:
    """Return the products of the model in `path` when it runs over `feeds`."""
    model = normalized(onnx.load(path, load_external_data=False))
    shapes = _shapes(model, feeds) if size_bytes(path) < _INFERRED_BYTES else {}
    if shapes and any(_macs(node, shapes) is None for node in model.graph.node if node.op_type in FLOAT_OPS):
        shapes = {**_followed(model), **shapes}
    biases = _biases(model.graph)
    levels = {name for node in model.graph.node if node.op_type == "DequantizeLinear" for name in node.output}
    return [
        Product(
            node.name,
            (*node.output, *biases.get(node.output[0], ())),
            _macs(node, shapes),
            reads_levels=not levels.isdisjoint(node.input),
        )
        for node in model.graph.node
        if node.op_type in FLOAT_OPS
    ]


def _biases(graph: onnx.GraphProto) -> dict[str, tuple[str, str]]:
    """Return name and output of each addition of a constant, by what it is added to."""
    constants = constant_names(graph)
    biases = {}
    for node in graph.node:
        if node.op_type == "Add" and len(constants.intersection(node.input)) == 1:
            (added_to,) = set(node.input) - constants
            biases[added_to] = (node.name, node.output[0])
    return biases


def _shapes(model: onnx.ModelProto, feeds: Feeds) -> dict[str, tuple[int, ...]]:
    """Infer all shapes from those of `feeds`; the shapes written in the file may have free axes."""
    for value in model.graph.input:
        if value.name in feeds:
            sizes = [onnx.TensorShapeProto.Dimension(dim_value=size) for size in np.shape(feeds[value.name])]
            value.type.tensor_type.shape.CopyFrom(onnx.TensorShapeProto(dim=sizes))
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return _known_shapes(shape_inference.infer_shapes(model, data_prop=True).graph)


def _followed(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Infer shapes by ONNX Runtime's tool, which computes with sizes as a network does; nothing where it gives up.

    Inputs of `model` have numbers for sizes. It takes longer, and knows fewer operators.
    """
    with TemporaryDirectory(prefix="pytest-quant-") as folder, chdir(folder), tools_without_torch(), quiet():
        from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

        try:
            return _known_shapes(SymbolicShapeInference.infer_shapes(model, auto_merge=True).graph)
        except Exception:
            # It raises bare Exception, and drops the model into the current folder. Sizes then stay unknown.
            return {}


def _known_shapes(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        sizes = value.type.tensor_type.shape.dim
        if value.type.tensor_type.HasField("shape") and all(size.HasField("dim_value") for size in sizes):
            shapes.setdefault(value.name, tuple(size.dim_value for size in sizes))
    return shapes


def _macs(node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]]) -> int | None:
    names = [name for name in node.input if name]
    if not all(name in shapes for name in (*names, node.output[0])):
        return None
    inputs = tuple(Operand("float", shapes[name]) for name in names)
    return macs_of(RanNode(node.name, node.op_type, "", inputs, (Operand("float", shapes[node.output[0]]),)))
