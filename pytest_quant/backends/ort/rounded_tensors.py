"""Which tensors the ONNX file of an engine rounds, and the float tensor of each: pairs of Q/DQ, and packed weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from pytest_quant.backends.onnx_files.graphs import FLOAT_BYTES, refill
from pytest_quant.backends.ort.prepare import WEIGHTED
from pytest_quant.backends.ort.session import open_session
from pytest_quant.files import temporary_folder

_PARTS = ("quantized", "scale", "zero_point")
"""How the quantizer calls what it makes of a weight, behind the name of that."""

_PACKED = re.compile(r"(_Transposed)?_Q\d+$")
"""How it calls what it packs in blocks."""

_LARGEST = 2.0**-2
"""A float tensor is the one that was rounded if they differ by less than this share of its norm."""


@dataclass(slots=True)
class Rounded:
    """A tensor that is rounded: the names of its float value, what its integers stand for, and scale and zero point."""

    real: str
    rounded: list[str] = field(default_factory=list)
    scale: str = ""
    zero: str = ""
    is_weight: bool = False


def made_by(graph: onnx.GraphProto) -> dict[str, onnx.NodeProto]:
    """Return the node that gives each tensor, by its name."""
    return {name: node for node in graph.node for name in node.output if name}


def find_pairs(model: onnx.ModelProto, floats: Sequence[onnx.ModelProto]) -> tuple[list[Rounded], int]:
    """Return each pair whose float side is known, in the order of the graph, and the number of the others.

    Float weights are added to the graph.
    """
    graph, pairs = model.graph, dict[str, Rounded]()
    lost: set[str] = set()
    makers, constants = made_by(graph), {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type != "DequantizeLinear":
            continue
        held, maker = node.input[0], makers.get(node.input[0])
        if held not in pairs:
            zero = node.input[2] if len(node.input) > 2 else ""
            if maker is not None and maker.op_type == "QuantizeLinear":
                pairs[held] = Rounded(maker.input[0], [], node.input[1], zero, is_weight=maker.input[0] in constants)
            elif held in constants and node.input[1] in constants:
                given = _candidates(constants[held], constants[node.input[1]], constants.get(zero))
                found = _find_float(held, given, floats)
                if found is None:
                    lost.add(held)
                    continue
                pairs[held] = Rounded(f"{held} in float", [], node.input[1], zero, is_weight=True)
                graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(found), pairs[held].real))
            else:
                continue
        pairs[held].rounded.append(node.output[0])
    return [*pairs.values()], len(lost)


def find_integer_weights(model: onnx.ModelProto, engine: onnx.ModelProto) -> Iterator[Rounded]:
    """Yield the weights of a float model that `engine` holds in integers, behind nodes that give them rounded."""
    graph, constants = model.graph, {tensor.name: tensor for tensor in engine.graph.initializer}
    floats = {tensor.name: tensor for tensor in graph.initializer}
    packed = {_PACKED.sub("", node.input[1]): node for node in engine.graph.node if node.op_type == "MatMulNBits"}
    pairs: dict[str, Rounded] = {}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        name = node.input[1] if node.op_type in WEIGHTED and node.input[1] in floats else ""
        if name and name not in pairs:
            weight, given = numpy_helper.to_array(floats[name]), list[NDArray[Any]]()
            # The weight of a Gemm is turned before, under another name.
            parts = [[constants.get(f"{name}{how}_{part}") for part in _PARTS] for how in ("", "_Transposed")]
            integers, scale, zero = next((each for each in parts if each[0] is not None), (None, None, None))
            if integers is not None and scale is not None:
                given = _candidates(integers, scale, zero)
            elif name in packed:
                given = [_unpack(packed[name], engine)]
            found = next((side for each in given for side in _sides(each) if _is_near(weight, side)), None)
            if found is not None:
                pairs[name] = Rounded(name, [f"{name} read"], is_weight=True)
                graph.initializer.append(numpy_helper.from_array(found.astype(np.float32), f"{name} in integers"))
                nodes.append(helper.make_node("Identity", [f"{name} in integers"], [f"{name} read"]))
        if name in pairs:
            node.input[1] = f"{name} read"
        nodes.append(node)
    refill(graph.node, nodes)
    yield from pairs.values()


def _find_float(held: str, rounded: Sequence[NDArray[Any]], floats: Sequence[onnx.ModelProto]) -> NDArray[Any] | None:
    """Return the float of `floats` that is close to one of the `rounded` ones, turned perhaps; by its name first."""
    shapes = {shape for each in rounded for shape in (each.shape, each.shape[::-1])}
    tensors = (tensor for model in floats for tensor in model.graph.initializer if tensor.data_type in FLOAT_BYTES)
    fitting = [tensor for tensor in tensors if tuple(tensor.dims) in shapes]
    for tensor in sorted(fitting, key=lambda tensor: not held.startswith(tensor.name)):
        turned = _sides(numpy_helper.to_array(tensor))
        found = next((side for side in turned for each in rounded if _is_near(side, each)), None)
        if found is not None:
            return found.astype(np.float32)
    return None


def _sides(array: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return a tensor, and a matrix turned too: quantizers turn those of a Gemm."""
    return (array, array.T) if array.ndim == 2 else (array,)


def _is_near(real: NDArray[Any], rounded: NDArray[Any]) -> bool:
    return real.shape == rounded.shape and bool(np.linalg.norm(real - rounded) <= _LARGEST * np.linalg.norm(real))


def _unpack(node: onnx.NodeProto, engine: onnx.ModelProto) -> NDArray[Any]:
    """Return the matrix (k, n) that a product of packed weights multiplies by: its product with the unit matrix."""
    sizes = {each.name: each.i for each in node.attribute}
    held = [tensor for tensor in engine.graph.initializer if tensor.name in node.input[1:]]
    ends = [helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, ["m", sizes["K"]])]
    outs = [helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, ["m", sizes["N"]])]
    exact = onnx.NodeProto()
    exact.CopyFrom(node)
    refill(exact.attribute, [each for each in node.attribute if each.name != "accuracy_level"])
    graph = helper.make_graph([exact], "weights", ends, outs, held)
    model = helper.make_model(graph, opset_imports=engine.opset_import, ir_version=engine.ir_version)
    with temporary_folder() as folder:
        path = folder / "weights.onnx"
        onnx.save_model(model, path)
        return np.asarray(open_session(path)[0].run(None, {node.input[0]: np.eye(sizes["K"], dtype=np.float32)})[0])


def _candidates(
    held: onnx.TensorProto, scales: onnx.TensorProto, zero_points: onnx.TensorProto | None
) -> list[NDArray[Any]]:
    """Return what integers stand for, of one scale, or of one for each channel along the axes that fit."""
    integers, scale = (numpy_helper.to_array(each).astype(np.float64) for each in (held, scales))
    zero = None if zero_points is None else numpy_helper.to_array(zero_points)
    zeros = np.zeros_like(scale) if zero is None else zero.astype(np.float64)
    if scale.size == 1:
        return [(integers - zeros.item()) * float(scale.item())]
    axes = [axis for axis, size in enumerate(integers.shape) if size == scale.size]
    shapes = [[-1 if axis == own else 1 for axis in range(integers.ndim)] for own in axes]
    return [(integers - zeros.reshape(shape)) * scale.reshape(shape) for shape in shapes]
