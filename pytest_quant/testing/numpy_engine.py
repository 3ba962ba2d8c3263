"""One graph in onnx's reference evaluator, and its int8 by rounding.

Weights are rounded to 255 levels for each output channel, activations to 256 levels of a known range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from pytest_quant.backends import Engine, Feeds, Outputs
from pytest_quant.backends.onnx_files import model_file, read_signature, size_bytes
from pytest_quant.backends.readback import Kind, Tallied, tally
from pytest_quant.backends.runtime import name_errors
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec, Model

_ELIGIBLE = ("Conv", "Gemm", "MatMul")
_ROUNDED = "_rounded"

Ranges: TypeAlias = dict[str, tuple[float, float]]
"""Smallest and largest value of each tensor."""


class NumpyEngine(Engine):
    """A graph that is evaluated node by node in numpy; `simulated` unless it is the float one."""

    provider = "numpy"

    def __init__(self, spec: EngineSpec, path: Path) -> None:
        self.spec = spec
        self.signature = read_signature(path)
        self.simulated = spec.scheme is not None
        self.size_bytes = size_bytes(path)
        if self.simulated:
            self.notes = ("int8 is simulated: values are rounded to 8 bits and computed in float",)
        self._graph = onnx.load(path).graph
        with name_errors(
            f"numpy cannot run {path.name}", "use a runtime that knows the operator, as backend='ort' may"
        ):
            self._evaluator = ReferenceEvaluator(str(path))

    def _run(self, feeds: Feeds) -> Outputs:
        call = self._prepare(feeds)
        names = (tensor.name for tensor in self.signature.outputs)
        return {name: np.array(array) for name, array in zip(names, call(), strict=True)}  # type: ignore[call-overload]

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        return partial(self._evaluator.run, None, feeds)

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Count the eligible nodes whose operands are rounded to 8 bits; for a float engine, all eligible nodes."""
        self._prepare(feeds)()
        return tally(
            [
                Tallied(node.name or node.output[0], node.op_type, Kind.ASKED if self._is_asked(node) else Kind.OTHER)
                for node in self._graph.node
                if node.op_type in _ELIGIBLE
            ],
            self.provider,
        )

    def _is_asked(self, node: onnx.NodeProto) -> bool:
        """Tell whether the weights of `node` are rounded, or both of two activations; all count in a float engine."""
        weights = {tensor.name for tensor in self._graph.initializer}
        constant = [name for name in node.input[:2] if name in weights]
        return not self.simulated or all(name.endswith(_ROUNDED) for name in (constant or node.input[:2]))

    def _close(self) -> None:
        del self._evaluator


def round_weights(weights: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
    """Round `weights` to multiples of max|w| / 127, for each index of `axis` apart."""
    others = tuple(i for i in range(weights.ndim) if i != axis % weights.ndim)
    scale = np.abs(weights).max(axis=others, keepdims=True) / 127.0
    safe = np.where(scale > 0, scale, 1.0)
    return (np.round(weights / safe) * safe).astype(weights.dtype)


def activation_ranges(float_model: Model, batches: Iterable[Feeds]) -> Ranges:
    """Return the range of every activation that an eligible node reads, over all `batches`."""
    model = onnx.load(model_file(float_model))
    weights = {tensor.name for tensor in model.graph.initializer}
    eligible = [node for node in model.graph.node if node.op_type in _ELIGIBLE]
    names = sorted({name for node in eligible for name in node.input[:2]} - weights)
    evaluator = ReferenceEvaluator(model)
    ranges: Ranges = {}
    for feeds in batches:
        for name, array in zip(names, evaluator.run(names, feeds), strict=True):
            low, high = ranges.get(name, (0.0, 0.0))
            ranges[name] = (min(low, float(array.min())), max(high, float(array.max())))
    return ranges


def write_rounded(spec: EngineSpec, ranges: Ranges, target: Path) -> None:
    """Write a copy of a model in which operators compute in float on values rounded to 8 bits.

    Parameters
    ----------
    spec : of the engine, with the float ONNX model and the names of nodes that stay as they are.
    ranges : lowest and highest value of each activation to round, by tensor name; weights are always rounded.
    target : the file to write.
    """
    model = onnx.load(model_file(spec.model))
    graph = model.graph
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    added: dict[str, onnx.TensorProto] = {}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type in _ELIGIBLE and node.name not in spec.exclude:
            for index, name in enumerate(node.input[:2]):
                if name in weights:
                    # A copy, so that an excluded node keeps the original.
                    axis = _channel_axis(node)
                    node.input[index] = f"{name}_axis{axis}{_ROUNDED}"
                    array = round_weights(weights[name], axis)
                    added[node.input[index]] = numpy_helper.from_array(array, node.input[index])
                elif name in ranges:
                    node.input[index] = name + _ROUNDED
                    if f"{name}_scale" not in added:
                        nodes += _make_rounding(name, *ranges[name], added)
        nodes.append(node)
    whole = helper.make_graph(nodes, graph.name, graph.input, graph.output, [*graph.initializer, *added.values()])
    onnx.save_model(helper.make_model(whole, opset_imports=model.opset_import, ir_version=model.ir_version), target)


def _channel_axis(node: onnx.NodeProto) -> int:
    """Return the axis of the weights that becomes the output channel."""
    transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
    return 0 if node.op_type == "Conv" or transposed else -1


def _make_rounding(name: str, low: float, high: float, added: dict[str, onnx.TensorProto]) -> list[onnx.NodeProto]:
    """Return the nodes that round `name` to 256 levels from `low` to `high`, zero among them, and add their operands.

    They compute in float: onnx's evaluator has DequantizeLinear of the newest opsets only.
    """
    scale = (high - low) / 255.0 or 1.0
    lowest = -np.clip(np.round(-low / scale), 0, 255)
    for what, value in (("scale", scale), ("lowest", lowest), ("highest", lowest + 255)):
        added[f"{name}_{what}"] = numpy_helper.from_array(np.array(value, np.float32), f"{name}_{what}")
    return [
        helper.make_node("Div", [name, f"{name}_scale"], [f"{name}_divided"]),
        helper.make_node("Round", [f"{name}_divided"], [f"{name}_whole"]),
        helper.make_node("Clip", [f"{name}_whole", f"{name}_lowest", f"{name}_highest"], [f"{name}_clipped"]),
        helper.make_node("Mul", [f"{name}_clipped", f"{name}_scale"], [name + _ROUNDED]),
    ]
