"""Networks whose inputs have free axes beside the batch, and samples for them; sessions that check them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from pytest_quant.cache import Cache
from pytest_quant.measure.steps import Steps
from pytest_quant.session import Session
from pytest_quant.spec import Check, Dataset, EngineSpec, LatencyPlan, Limits, Model

Sizes = tuple[tuple[int, int], ...]


def detector(folder: Path) -> Path:
    """Free height and width, a kernel of seven by seven, a pooling, a map of scores and one of boxes."""
    nodes = [
        helper.make_node("Conv", ["x", "stem"], ["a"], name="stem", kernel_shape=[7, 7], strides=[2, 2], pads=[3] * 4),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("MaxPool", ["b"], ["c"], name="pool", kernel_shape=[3, 3], strides=[2, 2]),
        helper.make_node("Conv", ["c", "middle"], ["d"], name="middle", kernel_shape=[7, 7]),
        helper.make_node("Conv", ["d", "score"], ["scores"], name="score", kernel_shape=[1, 1]),
        helper.make_node("Conv", ["d", "box"], ["boxes"], name="box", kernel_shape=[1, 1]),
    ]
    weights = {"stem": (8, 3, 7, 7), "middle": (8, 8, 7, 7), "score": (2, 8, 1, 1), "box": (4, 8, 1, 1)}
    outputs = {"scores": ["n", 2, "i", "j"], "boxes": ["n", 4, "i", "j"]}
    return save_network(folder / "detector.onnx", nodes, {"x": ["n", 3, "h", "w"]}, outputs, weights)


def recognizer(folder: Path) -> Path:
    """Fixed height, free width: columns of features, then time steps of classes, as in text recognition."""
    nodes = [
        helper.make_node("Conv", ["x", "stem"], ["a"], name="stem", kernel_shape=[3, 3], strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("AveragePool", ["b"], ["c"], name="column", kernel_shape=[15, 4], strides=[15, 2]),
        helper.make_node("Squeeze", ["c", "two"], ["d"], name="flat"),
        helper.make_node("Transpose", ["d"], ["e"], name="steps", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["e", "head"], ["y"], name="head"),
    ]
    weights = {"stem": (16, 1, 3, 3), "head": (16, 11)}
    return save_network(
        folder / "recognizer.onnx",
        nodes,
        {"x": ["n", 1, 32, "w"]},
        {"y": ["n", "t", 11]},
        weights,
        {"two": np.array([2], np.int64)},
    )


def tokens(folder: Path) -> Path:
    """Ids and mask of free length; the mean over the tokens that count, then a head."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["a"], name="table"),
        helper.make_node("MatMul", ["a", "inner"], ["b"], name="inner"),
        helper.make_node("Unsqueeze", ["mask", "last"], ["m"], name="wide"),
        helper.make_node("Mul", ["b", "m"], ["c"], name="masked"),
        helper.make_node("ReduceMean", ["c"], ["d"], name="mean", axes=[1], keepdims=0),
        helper.make_node("MatMul", ["d", "head"], ["y"], name="head"),
    ]
    inputs = {"ids": ["n", "t"], "mask": ["n", "t"]}
    weights = {"table": (50, 32), "inner": (32, 32), "head": (32, 5)}
    kinds = {"ids": TensorProto.INT64}
    return save_network(
        folder / "tokens.onnx", nodes, inputs, {"y": ["n", 5]}, weights, {"last": np.array([-1], np.int64)}, kinds
    )


def steps(folder: Path) -> Path:
    """Time first, samples second, both free: a product at each step, then the mean over time."""
    nodes = [
        helper.make_node("MatMul", ["x", "inner"], ["a"], name="inner"),
        helper.make_node("ReduceMean", ["a"], ["b"], name="mean", axes=[0], keepdims=0),
        helper.make_node("MatMul", ["b", "head"], ["y"], name="head"),
    ]
    weights = {"inner": (16, 32), "head": (32, 5)}
    return save_network(folder / "steps.onnx", nodes, {"x": ["t", "n", 16]}, {"y": ["n", 5]}, weights)


def resizer(folder: Path) -> Path:
    """A map that is resized to a height and a width that are an input: an input whose values are a shape."""
    nodes = [
        helper.make_node("Conv", ["x", "stem"], ["a"], name="stem", kernel_shape=[3, 3]),
        helper.make_node("Concat", ["two", "size"], ["full"], name="full", axis=0),
        helper.make_node("Resize", ["a", "", "", "full"], ["y"], name="resize", mode="nearest"),
    ]
    return save_network(
        folder / "resizer.onnx",
        nodes,
        {"x": [1, 3, 16, 16], "size": [2]},
        {"y": [1, 4, "i", "j"]},
        {"stem": (4, 3, 3, 3)},
        {"two": np.array([1, 4], np.int64)},
        {"size": TensorProto.INT64},
    )


def images(sizes: Sizes, channels: int = 3, seed: int = 0) -> list[NDArray[np.float32]]:
    """One image for each size, each different."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(channels, *size)).astype(np.float32) for size in sizes]


def check_of(
    path: Path, dataset: Dataset, *, scheme: str | None = "static", backend: str = "trt-rtx", **options: object
) -> Check:
    """A check without limits, timed (if it could be) at four samples, for a GPU that is named."""
    model = Model.from_onnx(path)
    named = tuple(sorted({"compute_capability": "SM89", **options}.items()))
    reference = EngineSpec(backend, "fp32", None, model, options=named)
    candidate = EngineSpec(backend, "int8" if scheme else "fp32", scheme, model, options=named)
    plan = LatencyPlan(batch_size=4)
    return Check("t.py::test", "t.py::test", candidate, reference, dataset, Limits(), latency=plan, batch_size=4)


@contextmanager
def session_in(folder: Path) -> Iterator[Session]:
    """A session with a cache of its own, which tells nobody what it does."""
    yield Session(
        Cache(folder / "cache", notify=lambda _: None),
        baseline=lambda _: None,
        steps=Steps(lambda _: None),
    )


def save_network(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: Mapping[str, list[Any]],
    outputs: Mapping[str, list[Any]],
    weights: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, NDArray[Any]] | None = None,
    kinds: Mapping[str, int] | None = None,
) -> Path:
    """Write a network with weights drawn at random.

    Parameters
    ----------
    path : the file; its stem is the name of the graph.
    nodes : in the order they run.
    inputs, outputs : sizes by name, a word for a free one; outputs are float32.
    weights : shapes by name, drawn with a deviation that keeps activations at their size.
    constants : arrays by name.
    kinds : element types of inputs; float32 where there is none.
    """
    rng = np.random.default_rng(0)
    value, floats = helper.make_tensor_value_info, TensorProto.FLOAT
    drawn = {
        name: (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        for name, shape in weights.items()
    }
    graph = helper.make_graph(
        nodes,
        path.stem,
        [value(name, (kinds or {}).get(name, floats), shape) for name, shape in inputs.items()],
        [value(name, floats, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in {**drawn, **(constants or {})}.items()],
    )
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
