"""Small ONNX graphs on which names and precisions go astray."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from pytest_quant.backends import Engine, Feeds, get_backend
from pytest_quant.spec import EngineSpec, Model

Array = NDArray[np.float32]
Shape = list[int | str]


def normal(*shape: int, seed: int = 0, scale: float = 0.3) -> Array:
    """Normal values."""
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def write(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: Mapping[str, Shape],
    outputs: Mapping[str, Shape],
    weights: Mapping[str, NDArray[np.generic]],
) -> Model:
    """Write a model of float32 inputs and outputs."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    ins, outs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends.items()]
        for ends in (inputs, outputs)
    )
    graph = helper.make_graph(nodes, "graph", ins, outs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return Model.from_onnx(path)


def recurrent(path: Path) -> Model:
    """An LSTM of 8 units and a dense layer on its last state."""
    nodes = [
        helper.make_node("LSTM", ["x", "W", "R", "B"], ["", "state"], name="rnn", hidden_size=8),
        helper.make_node("Squeeze", ["state", "axis"], ["s"], name="squeeze"),
        helper.make_node("MatMul", ["s", "w"], ["y"], name="last"),
    ]
    weights = {"W": normal(1, 32, 4), "R": normal(1, 32, 8), "B": normal(1, 64), "w": normal(8, 3)}
    return write(path, nodes, {"x": [5, "n", 4]}, {"y": ["n", 3]}, weights | {"axis": np.array([0])})


@contextmanager
def quantized(spec: EngineSpec, feeds: Callable[[int], Feeds]) -> Iterator[Engine]:
    """Quantize over four batches of ``feeds(seed)``, build and open."""
    backend = get_backend("openvino")
    backend.check(spec)
    with TemporaryDirectory() as ranges, TemporaryDirectory() as folder:
        backend.calibrate(spec, lambda: (feeds(seed) for seed in range(4)), Path(ranges))
        backend.build(spec, Path(ranges), Path(folder))
        engine = backend.open(spec, Path(folder))
        try:
            yield engine
        finally:
            engine.close()
