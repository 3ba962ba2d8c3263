"""Networks whose inputs have free axes beside the batch, and samples for them; sessions that check them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_quant.check_runner import CheckRunner
from pytest_quant.spec import Check, Dataset, EngineSpec, LatencyPlan, Limits, Model
from tests.support.measuring import quiet_session
from tests.support.models import parsed

Sizes = tuple[tuple[int, int], ...]


def detector(folder: Path) -> Path:
    """Free height and width, a kernel of seven by seven, a pooling, a map of scores and one of boxes."""
    graph = """(float[n, 3, h, w] x) => (float[n, 2, i, j] scores, float[n, 4, i, j] boxes) {
        [stem] a = Conv<kernel_shape = [7, 7], strides = [2, 2], pads = [3, 3, 3, 3]>(x, stem)
        [relu] b = Relu(a)
        [pool] c = MaxPool<kernel_shape = [3, 3], strides = [2, 2]>(b)
        [middle] d = Conv<kernel_shape = [7, 7]>(c, middle)
        [score] scores = Conv<kernel_shape = [1, 1]>(d, score)
        [box] boxes = Conv<kernel_shape = [1, 1]>(d, box) }"""
    weights = {"stem": (8, 3, 7, 7), "middle": (8, 8, 7, 7), "score": (2, 8, 1, 1), "box": (4, 8, 1, 1)}
    return save_network(folder / "detector.onnx", graph, weights)


def recognizer(folder: Path) -> Path:
    """Fixed height, free width: columns of features, then time steps of classes, as in text recognition."""
    graph = """(float[n, 1, 32, w] x) => (float[n, t, 11] y) <int64[1] two = {2}> {
        [stem] a = Conv<kernel_shape = [3, 3], strides = [2, 2]>(x, stem)
        [relu] b = Relu(a)
        [column] c = AveragePool<kernel_shape = [15, 4], strides = [15, 2]>(b)
        [flat] d = Squeeze(c, two)
        [steps] e = Transpose<perm = [0, 2, 1]>(d)
        [head] y = MatMul(e, head) }"""
    return save_network(folder / "recognizer.onnx", graph, {"stem": (16, 1, 3, 3), "head": (16, 11)})


def tokens(folder: Path) -> Path:
    """Ids and mask of free length; the mean over the tokens that count, then a head."""
    graph = """(int64[n, t] ids, float[n, t] mask) => (float[n, 5] y) <int64[1] last = {-1}> {
        [table] a = Gather(table, ids)
        [inner] b = MatMul(a, inner)
        [wide] m = Unsqueeze(mask, last)
        [masked] c = Mul(b, m)
        [mean] d = ReduceMean<axes = [1], keepdims = 0>(c)
        [head] y = MatMul(d, head) }"""
    return save_network(folder / "tokens.onnx", graph, {"table": (50, 32), "inner": (32, 32), "head": (32, 5)})


def steps(folder: Path) -> Path:
    """Time first, samples second, both free: a product at each step, then the mean over time."""
    graph = """(float[t, n, 16] x) => (float[n, 5] y) {
        [inner] a = MatMul(x, inner)
        [mean] b = ReduceMean<axes = [0], keepdims = 0>(a)
        [head] y = MatMul(b, head) }"""
    return save_network(folder / "steps.onnx", graph, {"inner": (16, 32), "head": (32, 5)})


def resizer(folder: Path) -> Path:
    """A map that is resized to a height and a width that are an input: an input whose values are a shape."""
    graph = """(float[1, 3, 16, 16] x, int64[2] size) => (float[1, 4, i, j] y) <int64[2] two = {1, 4}> {
        [stem] a = Conv<kernel_shape = [3, 3]>(x, stem)
        [full] full = Concat<axis = 0>(two, size)
        [resize] y = Resize<mode = "nearest">(a, , , full) }"""
    return save_network(folder / "resizer.onnx", graph, {"stem": (4, 3, 3, 3)})


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
def session_in(folder: Path) -> Iterator[CheckRunner]:
    """A session with a cache of its own, which tells nobody what it does."""
    yield quiet_session(folder / "cache")


def save_network(path: Path, graph: str, weights: Mapping[str, tuple[int, ...]]) -> Path:
    """Write a network with weights drawn at random.

    Parameters
    ----------
    path : the file.
    graph : inputs, outputs, constants and nodes in ONNX's text format.
    weights : shapes by name, drawn with a deviation that keeps activations at their size.
    """
    rng = np.random.default_rng(0)
    drawn = {
        name: (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        for name, shape in weights.items()
    }
    return parsed(path, graph, **drawn)
