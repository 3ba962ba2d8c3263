"""Small networks that lose accuracy in int8 for one known reason each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

WIDTH, CLASSES = 16, 4
Floats = NDArray[np.float32]


def one_large_channel(path: Path) -> None:
    """Write four dense layers ``fc1`` to ``fc4``; between the second and third, one channel is a thousand times larger.

    The third layer has no weight for that channel, so in float it does nothing. Eight bits over its range are too
    coarse for the other channels: ``fc2``, which gives the tensor, and ``fc3``, which takes it, must stay in float.
    """
    rng = np.random.default_rng(0)
    weights = {f"w{i}": _normal(rng, WIDTH, WIDTH) for i in (1, 2, 3)} | {"w4": _normal(rng, WIDTH, CLASSES)}
    weights["w2"][:, 0] *= 1000.0
    weights["w3"][0, :] = 0.0
    nodes = []
    for i in (1, 2, 3, 4):
        nodes.append(helper.make_node("MatMul", ["x" if i == 1 else f"h{i - 1}", f"w{i}"], [f"m{i}"], name=f"fc{i}"))
        if i < 4:
            nodes.append(helper.make_node("Relu", [f"m{i}"], [f"h{i}"], name=f"relu{i}"))
    _save(path, nodes, ["n", WIDTH], "m4", weights)


def two_layers(path: Path) -> None:
    """Write two dense layers that lose little in int8 when they are calibrated well."""
    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["m"], name="fc1"),
        helper.make_node("Relu", ["m"], ["h"], name="relu"),
        helper.make_node("MatMul", ["h", "w2"], ["y"], name="fc2"),
    ]
    weights = {"w1": _normal(rng, WIDTH, WIDTH), "w2": _normal(rng, WIDTH, CLASSES)}
    _save(path, nodes, ["n", WIDTH], "y", weights)


def dead_channel(path: Path) -> None:
    """Write a depthwise convolution one of whose kernels is a thousand times the others and never gets past the ReLU.

    With one scale for all weights the other kernels round to nothing; with one for each channel they do not.
    """
    rng = np.random.default_rng(1)
    depthwise, bias = _normal(rng, 8, 1, 3, 3), np.zeros(8, np.float32)
    depthwise[0] *= 1000.0
    bias[0] = -1e5
    nodes = [
        helper.make_node("Conv", ["x", "d", "b"], ["a"], name="depthwise", group=8, kernel_shape=[3, 3]),
        helper.make_node("Relu", ["a"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "p"], ["q"], name="pointwise", kernel_shape=[1, 1]),
        helper.make_node("GlobalAveragePool", ["q"], ["g"], name="pool"),
        helper.make_node("Flatten", ["g"], ["y"], name="flatten"),
    ]
    _save(path, nodes, ["n", 8, 6, 6], "y", {"d": depthwise, "b": bias, "p": _normal(rng, CLASSES, 8, 1, 1)})


def recurrent(path: Path) -> None:
    """Write an LSTM over six steps of eight values; the class is read from its last state."""
    rng = np.random.default_rng(2)
    weights: dict[str, NDArray[Any]] = {
        "w": _normal(rng, 1, 4 * WIDTH, 8),
        "r": _normal(rng, 1, 4 * WIDTH, WIDTH),
        "out": _normal(rng, WIDTH, CLASSES),
        "axes": np.array([0], np.int64),
    }
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], name="time_first", perm=[1, 0, 2]),
        helper.make_node("LSTM", ["t", "w", "r"], ["", "last"], name="lstm", hidden_size=WIDTH),
        helper.make_node("Squeeze", ["last", "axes"], ["s"], name="squeeze"),
        helper.make_node("MatMul", ["s", "out"], ["y"], name="head"),
    ]
    _save(path, nodes, ["n", 6, 8], "y", weights)


def _normal(rng: np.random.Generator, *shape: int) -> Floats:
    fan_in = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
    values: Floats = (rng.normal(size=shape) / np.sqrt(fan_in)).astype(np.float32)
    return values


def _save(
    path: Path,
    nodes: list[onnx.NodeProto],
    shape: list[str | int],
    output: str,
    weights: Mapping[str, NDArray[Any]],
) -> None:
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
