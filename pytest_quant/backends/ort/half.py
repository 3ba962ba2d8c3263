"""A graph whose floats have sixteen bits: what is float32 for TensorRT's strong types is float32 in the graph.

Around Q/DQ pairs the scales get the same type, for a pair gives the type of its scale to what reads it. That is what
TensorRT fuses into INT8 products, and what operators take since opset 19. What is computed from the sizes of inputs
alone stays float32: the anchors of a detector are coordinates, which eleven bits do not count, and TensorRT itself
computes sizes in float32 or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from pytest_quant.backends.onnx_files import write_model
from pytest_quant.backends.onnx_files.graphs import all_graphs, opset_of, refill
from pytest_quant.backends.onnx_files.normalize import normalized, raised
from pytest_quant.backends.ort.session import refusing
from pytest_quant.backends.runtime import quiet
from pytest_quant.errors import BuildError

_PAIRS = frozenset({"QuantizeLinear", "DequantizeLinear"})
_PAIRS_IN_HALF = 19
"""First opset whose pairs have scales of sixteen bits."""

_DTYPES = frozenset({"to", "dtype", "output_dtype"})
"""Attributes that name an element type."""


def write_half(source: Path, target: Path, kind: str = "fp16") -> None:
    """Write the model in `source` with floats of sixteen bits inside, inputs and outputs as they were.

    Parameters
    ----------
    source : an ONNX file, with or without Q/DQ pairs.
    target : the file to write, which may be the same one.
    kind : ``fp16``, where numbers beyond its range become its largest or smallest ones, or ``bf16``.

    Raises
    ------
    BuildError : ONNX Runtime's converter does not take the model, it has no float32 weights, or its opset cannot be
        raised to one that has pairs of that type.
    """
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = normalized(onnx.load(source))
    if 0 < opset_of(model) < _PAIRS_IN_HALF and any(node.op_type in _PAIRS for node in _nodes(model)):
        need = f"Q/DQ pairs in {kind} need {_PAIRS_IN_HALF} or later"
        model = normalized(raised(model, _PAIRS_IN_HALF, source.name, need=need, fix="or leave out `beside`"))
    floats = (tensor for tensor in _tensors(model) if tensor.data_type == TensorProto.FLOAT)
    exact = {tensor.name: deepcopy(tensor) for tensor in floats} if kind == "bf16" else {}
    whole = _of_sizes(model)
    ours = {node.name for node in _nodes(model)}
    with refusing(f"to convert {source.name} to {kind}"), quiet():
        half = convert_float_to_float16(model, keep_io_types=True, node_block_list=whole)
    if not any(tensor.data_type == TensorProto.FLOAT16 for tensor in _tensors(half)):
        raise BuildError(f"{source.name} has no float32 weights: {kind} changes nothing", fix="write precision='fp32'")
    _keep_whole(half, ours)
    if kind == "bf16":
        # Weights are rounded once, from their float32 values.
        retype(half, TensorProto.FLOAT16, TensorProto.BFLOAT16, exact)
    write_model(half, target)


def _of_sizes(model: onnx.ModelProto) -> list[str]:
    """Return the names of nodes that read sizes, and constants, and nothing else; those without a name get one."""
    names = {tensor.name for tensor in _tensors(model)} | {""}
    sizes: set[str] = set()
    sized = []
    for node in _nodes(model):
        if node.op_type in ("Shape", "Size"):
            sizes.update(node.output)
        elif node.op_type not in _PAIRS and not sizes.isdisjoint(node.input) and sizes | names >= set(node.input):
            sizes.update(node.output)
            # As TensorRT's parser would call it.
            node.name = node.name or f"node_of_{node.output[0]}"
            sized.append(node.name)
    return sized


def _keep_whole(model: onnx.ModelProto, taken: set[str]) -> None:
    """Let a node that stayed float32 read another such node itself, and not by way of the casts between them.

    A node that reads one tensor twice got a cast for each, of one name, which no graph may have.
    """
    before = {node.output[0]: node.input[0] for node in _nodes(model) if _added(node, taken)}
    for node in _nodes(model):
        for place, name in enumerate(node.input):
            if not _added(node, taken) and before.get(name) in before:
                node.input[place] = before[before[name]]
    dropped = True
    while dropped:
        read = {name for node in _nodes(model) for name in node.input}
        read |= {value.name for graph in all_graphs(model.graph) for value in graph.output}
        nodes_before = sum(1 for _ in _nodes(model))
        for graph in all_graphs(model.graph):
            added: set[str] = set()
            nodes = []
            for node in graph.node:
                if not _added(node, taken) or node.output[0] in read - added:
                    nodes.append(node)
                added.update(node.output)
            refill(graph.node, nodes)
        dropped = sum(1 for _ in _nodes(model)) < nodes_before


def _added(node: onnx.NodeProto, taken: set[str]) -> bool:
    """Whether the converter wrote it: a cast with a name that the graph did not have."""
    return node.op_type == "Cast" and bool(node.name) and node.name not in taken


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    return (node for graph in all_graphs(model.graph) for node in graph.node)


def _tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    return (tensor for graph in all_graphs(model.graph) for tensor in graph.initializer)


def retype(model: onnx.ModelProto, old: int, new: int, exact: Mapping[str, TensorProto] | None = None) -> None:
    """Turn the element type `old` into `new` throughout `model`, the graphs in it and their inputs and outputs too.

    Parameters
    ----------
    exact : the values that initializers are rounded from, by name; of others their own.
    """
    for tensor in _tensors(model):
        _convert(tensor, (exact or {}).get(tensor.name, tensor), old, new)
    for node in _nodes(model):
        for attribute in node.attribute:
            if attribute.name in _DTYPES and attribute.i == old:
                attribute.i = new
            _convert(attribute.t, attribute.t, old, new)
    for graph in all_graphs(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type == old:
                value.type.tensor_type.elem_type = new


def _convert(tensor: TensorProto, exact: TensorProto, old: int, new: int) -> None:
    if tensor.data_type != old:
        return
    values: NDArray[np.float32] = numpy_helper.to_array(exact).astype(np.float32)
    converted = values.astype(helper.tensor_dtype_to_np_dtype(new))
    tensor.CopyFrom(helper.make_tensor(tensor.name, new, tensor.dims, converted.tobytes(), raw=True))
