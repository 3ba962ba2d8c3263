"""A channel that is multiplied by one product and divided by the next: nothing for FP32, much for eight bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.benchmarks.blame.graph import WEIGHTED, Graph, attribute

_ALIKE = frozenset({
    "AveragePool", "Dropout", "GlobalAveragePool", "GlobalMaxPool", "Identity", "LeakyRelu", "MaxPool", "PRelu", "Pad",
    "Relu", "Resize",
})  # fmt: skip
"""Operators of one channel at a time that give `f` times as much for `f` times as much, f > 0."""

_MOVING = frozenset({"Flatten", "ReduceMean", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


@dataclass(frozen=True, slots=True)
class Path:
    """The nodes between a maker of channels and all products that read them.

    Attributes
    ----------
    maker : scales the channel.
    tensor : what it gives.
    channels : how many.
    between : nodes with constants for each channel, which are scaled too.
    readers : products that divide, each with how it sees the channels: the axis; ``front`` or ``back`` if they are
        spread over a flat axis, the channel the slower or the faster index.
    """

    maker: onnx.NodeProto
    tensor: str
    channels: int
    between: tuple[onnx.NodeProto, ...]
    readers: tuple[tuple[onnx.NodeProto, int | str], ...]


def find_paths(graph: Graph) -> Iterator[Path]:
    """Yield the places where a channel can be planted; whether FP32 stays equal is to be checked by a run."""
    for node in graph.nodes:
        channels = _made_channels(graph, node)
        if channels > 1:
            path = _follow(graph, node, channels)
            if path is not None:
                yield path


def _made_channels(graph: Graph, node: onnx.NodeProto) -> int:
    """Return how many channels `node` makes whose size its constants decide; 0 if they do not."""
    if node.op_type in ("BatchNormalization", "LayerNormalization"):
        scale = graph.array(node.input[1])
        return 0 if scale is None or scale.ndim != 1 else len(scale)
    weight = graph.array(node.input[1]) if node.op_type in WEIGHTED and len(node.input) > 1 else None
    if weight is None or node.op_type == "ConvTranspose" or weight.dtype != np.float32 or weight.ndim < 2:
        return 0
    if node.op_type == "Conv" or (node.op_type == "Gemm" and attribute(node, "transB", 0)):
        return int(weight.shape[0])
    return int(weight.shape[-1])


def _follow(graph: Graph, maker: onnx.NodeProto, channels: int) -> Path | None:
    start: int | str = 1 if maker.op_type in ("Conv", "BatchNormalization") else -1
    waiting = [(maker.output[0], start)]
    between: list[onnx.NodeProto] = []
    readers: list[tuple[onnx.NodeProto, int | str]] = []
    while waiting:
        tensor, seen_as = waiting.pop()
        if tensor in graph.outputs:
            return None
        for node in graph.readers[tensor]:
            if node.op_type in WEIGHTED:
                if node.input[0] != tensor or node.input[1] not in graph.constants:
                    return None
                readers.append((node, seen_as))
            elif node.op_type == "BatchNormalization" or (node.op_type == "Add" and len(graph.computed(node)) == 1):
                between.append(node)
                waiting.append((node.output[0], seen_as))
            elif node.op_type in _ALIKE:
                waiting.append((node.output[0], seen_as))
            elif node.op_type in _MOVING:
                waiting.append((node.output[0], _moved(node, seen_as)))
            else:
                return None
    return Path(maker, maker.output[0], channels, tuple(between), tuple(readers)) if readers else None


def _moved(node: onnx.NodeProto, seen_as: int | str) -> int | str:
    """Return how the channels lie behind a node that moves values; a guess for shapes that nobody looked up."""
    if isinstance(seen_as, str):
        return seen_as
    if node.op_type == "Transpose":
        order = list(attribute(node, "perm", []))
        return order.index(seen_as % len(order)) if order else "front"
    if node.op_type in ("Squeeze", "Unsqueeze"):
        return seen_as
    return "front" if seen_as == 1 else "back"


def multiply(graph: Graph, path: Path, channel: int, factor: float) -> bool:
    """Scale a channel of `graph` by `factor`, and undo it in all readers; tells whether all of them could."""
    _scale_maker(graph, path.maker, channel, factor)
    for node in path.between:
        if not _scale_between(graph, node, channel, path.channels, factor):
            return False
    return all(_divide(graph, node, seen_as, channel, path.channels, factor) for node, seen_as in path.readers)


def _scale_maker(graph: Graph, node: onnx.NodeProto, channel: int, factor: float) -> None:
    last = node.op_type in ("MatMul", "Gemm") and not attribute(node, "transB", 0)
    for place, name in list(enumerate(node.input))[1:3]:
        array = graph.array(name)
        if array is not None:
            rows = array if place == 1 and not last else np.moveaxis(np.atleast_1d(array), -1, 0)
            rows[channel if len(rows) > 1 else slice(None)] *= np.float32(factor)
            graph.replace(node, place, array)


def _scale_between(graph: Graph, node: onnx.NodeProto, channel: int, channels: int, factor: float) -> bool:
    """Scale what is added for each channel, and the mean that is taken away."""
    places = (2, 3) if node.op_type == "BatchNormalization" else (0, 1)
    for place in places:
        array = graph.array(node.input[place])
        if array is not None:
            axes = [axis for axis, size in enumerate(array.shape) if size == channels]
            if not axes:
                return False
            # Broadcast from behind: a constant of all channels has them on its last fitting axis.
            np.moveaxis(array, axes[-1], 0)[channel] *= np.float32(factor)
            graph.replace(node, place, array)
    return True


def _divide(graph: Graph, node: onnx.NodeProto, seen_as: int | str, channel: int, channels: int, factor: float) -> bool:
    array = graph.array(node.input[1])
    assert array is not None
    rows = _rows(node, array, seen_as, channel, channels)
    if rows is None:
        return False
    rows /= np.float32(factor)
    graph.replace(node, 1, array)
    return True


def _rows(
    node: onnx.NodeProto, array: NDArray[Any], seen_as: int | str, channel: int, channels: int
) -> NDArray[Any] | None:
    """Return the part of a weight that meets the channel, as a view; ``None`` if sizes do not fit."""
    if node.op_type == "Conv":
        groups = attribute(node, "group", 1)
        inner, outer = array.shape[1], len(array) // groups
        if inner * groups != channels:
            return None
        own = channel // inner
        return array[own * outer : (own + 1) * outer, channel % inner]
    if node.op_type == "ConvTranspose":
        return array[channel] if len(array) == channels else None
    flat = array if node.op_type == "MatMul" or not attribute(node, "transB", 0) else array.T
    size = flat.shape[-2]
    if flat.ndim != 2 or size % channels:
        return None
    share = size // channels
    return flat[channel * share : (channel + 1) * share] if seen_as in ("front", 1) else flat[channel::channels]
