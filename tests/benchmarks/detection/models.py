"""Models, each also with so many percent more of the same work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.support.models import save

LAYERS = 20
"""One more is 5 %."""

ROWS, WIDTH = 48, 192
CHANNELS, SIDE = 16, 28
MAGIKA_POSITIONS = 8.5
"""Of its convolution's 508, that take 1 % of a run: +3 % and +6 % were measured at 24 and 48."""

READ_FROM_MEMORY = {"memory_24": 550, "memory_100": 1118}
"""Width of each of the matrices: 24 and 100 MB of weights."""

EXAMPLE = Path(__file__).parents[3] / "example_project"


def _chain(
    path: Path,
    more_pct: float,
    op: str,
    weight: Callable[[np.random.Generator], NDArray[np.float64]],
    shape: tuple[int, ...],
    **attributes: Any,
) -> None:
    """Write a chain of one operator, each with a weight of its own."""
    random = np.random.default_rng(0)
    nodes, weights = [], []
    for number in range(LAYERS + round(LAYERS * more_pct / 100.0)):
        weights.append(numpy_helper.from_array(weight(random).astype(np.float32), f"w{number}"))
        names = [f"y{number}", f"w{number}"]
        nodes.append(helper.make_node(op, names, [f"y{number + 1}"], name=f"layer{number}", **attributes))
    nodes[-1].output[0] = "y"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", *shape]) for name in ("y0", "y")]
    save(helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights), path, 17)


def _products(path: Path, more_pct: float) -> None:
    """Write products with orthogonal matrices, so that numbers keep their size."""

    def weight(random: np.random.Generator) -> NDArray[np.float64]:
        return np.linalg.qr(random.normal(size=(WIDTH, WIDTH)))[0]

    _chain(path, more_pct, "MatMul", weight, (ROWS, WIDTH))


def _convolutions(path: Path, more_pct: float) -> None:
    """Write convolutions 3x3."""

    def weight(random: np.random.Generator) -> NDArray[np.float64]:
        return random.normal(0.0, 1.0 / 12.0, (CHANNELS, CHANNELS, 3, 3))

    _chain(path, more_pct, "Conv", weight, (CHANNELS, SIDE, SIDE), pads=[1, 1, 1, 1])


def _read_from_memory(path: Path, more_pct: float, width: int) -> None:
    """Write products of one row with matrices of their own: nearly all of a run is reading these."""
    _chain(path, more_pct, "MatMul", lambda random: random.normal(0.0, width**-0.5, (width, width)), (width,))


def _magika(path: Path, more_pct: float) -> None:
    """Write Magika, with its own convolution once more over the first positions, of which the answer gets almost 0."""
    sys.path.append(str(EXAMPLE))
    from file_types import magika_model

    model = onnx.load(magika_model())
    graph = model.graph
    positions = round(MAGIKA_POSITIONS * more_pct)
    if positions:
        (convolution,) = (node for node in graph.node if node.op_type == "Conv")
        answer = graph.output[0].name
        (last,) = (node for node in graph.node if answer in node.output)
        last.output[0] = "before"
        numbers = {"from": [0], "to": [positions], "axis": [2]}
        graph.initializer.extend(numpy_helper.from_array(np.array(value), name) for name, value in numbers.items())
        graph.initializer.append(numpy_helper.from_array(np.array(1e-30, dtype=np.float32), "tiny"))
        again = helper.make_node("Conv", ["part", convolution.input[1]], ["more"], name="more")
        again.attribute.extend(convolution.attribute)
        graph.node.extend(
            [
                helper.make_node("Slice", [convolution.input[0], *numbers], ["part"]),
                again,
                helper.make_node("ReduceMax", ["more"], ["most"], keepdims=0),
                helper.make_node("Mul", ["most", "tiny"], ["nothing"]),
                helper.make_node("Add", ["before", "nothing"], [answer]),
            ]
        )
    path.write_bytes(model.SerializeToString())


WRITERS: Mapping[str, Callable[[Path, float], None]] = {
    "products": _products,
    "convolutions": _convolutions,
    "magika": _magika,
}
"""By name: writes a model with so many percent more work."""


def model_file(folder: Path, name: str, more_pct: float) -> Path:
    """Return the file of a model in `folder`, which is written when it is not there."""
    path = folder / f"{name}-{more_pct:g}.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if name in READ_FROM_MEMORY:
            _read_from_memory(path, more_pct, READ_FROM_MEMORY[name])
        else:
            WRITERS[name](path, more_pct)
    return path


def feeds_of(name: str) -> dict[str, NDArray[np.float32] | NDArray[np.int32]]:
    """Return one sample for a model."""
    random = np.random.default_rng(1)
    if name == "magika":
        return {"bytes": random.integers(0, 257, (1, 2048)).astype(np.int32)}
    if name in READ_FROM_MEMORY:
        return {"y0": random.normal(size=(1, READ_FROM_MEMORY[name])).astype(np.float32)}
    shape = (1, ROWS, WIDTH) if name == "products" else (1, CHANNELS, SIDE, SIDE)
    return {"y0": random.normal(size=shape).astype(np.float32)}
