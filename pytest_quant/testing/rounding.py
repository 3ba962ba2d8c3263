"""Int8 by rounding: weights to 255 levels for each output channel, activations to 256 levels of a known range."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from pytest_quant.backends.base import Feeds
from pytest_quant.errors import DataError

ELIGIBLE = ("Conv", "Gemm", "MatMul")
_ROUNDED = "_rounded"

Ranges: TypeAlias = dict[str, tuple[float, float]]
"""Smallest and largest value of each tensor."""


def rounded(weights: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
    """Round `weights` to multiples of max|w| / 127, for each index of `axis` apart."""
    others = tuple(i for i in range(weights.ndim) if i != axis % weights.ndim)
    scale = np.abs(weights).max(axis=others, keepdims=True) / 127.0
    safe = np.where(scale > 0, scale, 1.0)
    return (np.round(weights / safe) * safe).astype(weights.dtype)


def activation_ranges(path: Path, batches: Iterator[Feeds]) -> Ranges:
    """Return the range of every activation that an eligible node reads, over all `batches`.

    Raises
    ------
    DataError : there is no batch.
    """
    model = onnx.load(path)
    names = sorted({name for node in _eligible(model.graph) for name in _activations(node, model.graph)})
    evaluator = ReferenceEvaluator(model)
    ranges: Ranges = {}
    for feeds in batches:
        for name, array in zip(names, evaluator.run(names, feeds), strict=True):
            low, high = ranges.get(name, (0.0, 0.0))
            ranges[name] = (min(low, float(array.min())), max(high, float(array.max())))
    if names and not ranges:
        raise DataError("calibration got no batch", fix="write Dataset.from_arrays(inputs, labels, calibration=100)")
    return ranges


def write_rounded(path: Path, ranges: Ranges, exclude: Collection[str], target: Path) -> None:
    """Write a copy of a model in which operators compute in float on values rounded to 8 bits.

    Parameters
    ----------
    path : the float ONNX model.
    ranges : lowest and highest value of each activation to round, by tensor name; weights are always rounded.
    exclude : names of nodes that stay as they are.
    target : the file to write.
    """
    model = onnx.load(path)
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    names_of: dict[str, str] = {}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type in ELIGIBLE and node.name not in exclude:
            for index, name in enumerate(node.input[:2]):
                if name in weights:
                    node.input[index] = _round_weight(graph, weights[name], _channel_axis(node), names_of)
                elif name in ranges:
                    node.input[index] = _round_activation(graph, name, ranges[name], nodes, names_of)
        nodes.append(node)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    onnx.save_model(model, target)


def is_rounded(node: onnx.NodeProto, graph: onnx.GraphProto) -> bool:
    """Tell whether the weights of `node` are rounded; two activations count when both are."""
    weights = {tensor.name for tensor in graph.initializer}
    constant = [name for name in node.input[:2] if name in weights]
    return all(name.endswith(_ROUNDED) for name in (constant or node.input[:2]))


def _eligible(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    return [node for node in graph.node if node.op_type in ELIGIBLE]


def _activations(node: onnx.NodeProto, graph: onnx.GraphProto) -> list[str]:
    weights = {tensor.name for tensor in graph.initializer}
    return [name for name in node.input[:2] if name not in weights]


def _channel_axis(node: onnx.NodeProto) -> int:
    """Return the axis of the weights that becomes the output channel."""
    transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
    return 0 if node.op_type == "Conv" or transposed else -1


def _round_weight(graph: onnx.GraphProto, tensor: onnx.TensorProto, axis: int, names_of: dict[str, str]) -> str:
    """Add a rounded copy, so that an excluded node keeps the original."""
    name = f"{tensor.name}_axis{axis}{_ROUNDED}"
    if name not in names_of:
        array: NDArray[Any] = numpy_helper.to_array(tensor)
        graph.initializer.append(numpy_helper.from_array(rounded(array, axis), name))
        names_of[name] = name
    return name


def _round_activation(
    graph: onnx.GraphProto,
    name: str,
    limits: tuple[float, float],
    nodes: list[onnx.NodeProto],
    names_of: dict[str, str],
) -> str:
    """Add the steps that round `name` to 256 levels from ``limits[0]`` to ``limits[1]``, zero among them."""
    if name not in names_of:
        scale = (limits[1] - limits[0]) / 255.0 or 1.0
        lowest = -np.clip(np.round(-limits[0] / scale), 0, 255)
        values = {"scale": scale, "lowest": lowest, "highest": lowest + 255}
        operands = {key: f"{name}_{key}" for key in values}
        for key, value in values.items():
            graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), operands[key]))
        steps = [f"{name}{suffix}" for suffix in ("_divided", "_whole", "_clipped", _ROUNDED)]
        nodes.append(helper.make_node("Div", [name, operands["scale"]], [steps[0]]))
        nodes.append(helper.make_node("Round", [steps[0]], [steps[1]]))
        nodes.append(helper.make_node("Clip", [steps[1], operands["lowest"], operands["highest"]], [steps[2]]))
        nodes.append(helper.make_node("Mul", [steps[2], operands["scale"]], [steps[3]]))
        names_of[name] = steps[3]
    return names_of[name]
