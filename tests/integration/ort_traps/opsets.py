"""The same small networks in every opset that is still met, with their weights in Constant nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray
from onnx import TensorProto, helper, numpy_helper

OPSETS = range(9, 22)
_IR = {9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 19: 9, 20: 9, 21: 10}


class Chain:
    """Nodes one after another; `last` is the output of the latest."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.last = "x"
        self._rng = np.random.default_rng(0)

    def add(self, op: str, *more: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """Append `op` on the last output and `more`."""
        place = len(self.nodes)
        names = [f"t{place}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(op, [self.last, *more], names, name=f"{op}_{place}", **attributes))
        self.last = names[0]
        return names

    def constant(self, value: ArrayLike) -> str:
        """Append a Constant node."""
        name = f"c{len(self.nodes)}"
        self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value))))
        return name

    def weight(self, *shape: int) -> str:
        """Append a Constant node with drawn float32 values."""
        values: NDArray[np.float32] = (0.4 * self._rng.normal(size=shape)).astype(np.float32)
        return self.constant(values)

    def given(self, op: str, since: int, values: dict[str, list[int]], **attributes: Any) -> list[str]:
        """Append `op`, whose `values` are attributes before opset `since` and inputs from it on."""
        if self.opset < since:
            old: dict[str, Any] = {name: value[0] if name == "k" else value for name, value in values.items()}
            return self.add(op, **old, **attributes)
        return self.add(op, *(self.constant(np.array(value)) for value in values.values()), **attributes)


def _clip(chain: Chain) -> None:
    if chain.opset < 11:
        chain.add("Clip", min=0.0, max=6.0)
    else:
        chain.add("Clip", chain.constant(np.float32(0)), chain.constant(np.float32(6)))


def _split(chain: Chain) -> None:
    first, second = (
        chain.add("Split", outputs=2, axis=1, split=[4, 4])
        if chain.opset < 13
        else chain.add("Split", chain.constant([4, 4]), outputs=2, axis=1)
    )
    chain.last = second
    chain.add("Concat", first, axis=1)


def _enlarge(chain: Chain) -> None:
    scales = chain.constant(np.array([1, 1, 2, 2], np.float32))
    if chain.opset < 10:
        chain.add("Upsample", scales, mode="nearest")
    elif chain.opset == 10:
        chain.add("Resize", scales, mode="nearest")
    else:
        nothing = chain.constant(np.array([], np.float32))
        modes: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        chain.add("Resize", nothing, scales, mode="nearest", **modes)


def _squeeze(chain: Chain) -> None:
    chain.given("Unsqueeze", 13, {"axes": [0]})
    chain.given("Squeeze", 13, {"axes": [0]})


_ONES: NDArray[np.float32] = np.ones(8, np.float32)

CHANGED: dict[str, Callable[[Chain], object]] = {
    "batchnorm": lambda c: c.add("BatchNormalization", c.weight(8), c.weight(8), c.weight(8), c.constant(_ONES)),
    "clip": _clip,
    "dropout": lambda c: c.add("Dropout"),
    "enlarge": _enlarge,
    "pad": lambda c: c.given("Pad", 11, {"pads": [0, 0, 1, 1, 0, 0, 1, 1]}),
    "reduce_mean": lambda c: c.given("ReduceMean", 18, {"axes": [3]}, keepdims=1),
    "reduce_sum": lambda c: c.given("ReduceSum", 13, {"axes": [3]}, keepdims=1),
    "slice": lambda c: c.given("Slice", 10, {"starts": [0], "ends": [3], "axes": [2]}),
    "softmax": lambda c: c.add("Softmax", axis=1),
    "split": _split,
    "squeeze": _squeeze,
    "top_k": lambda c: c.given("TopK", 10, {"k": [2]}, outputs=2),
}
"""Operators whose form or meaning changed between opset 9 and 21."""


def network(opset: int, *names: str) -> onnx.ModelProto:
    """Return a convolution, the named operators and a product, in that opset."""
    chain = Chain(opset)
    chain.add("Conv", chain.weight(8, 3, 3, 3), chain.weight(8), kernel_shape=[3, 3])
    for name in names:
        CHANGED[name](chain)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.add("Gemm", chain.weight(5, 8), chain.weight(5), transB=1)
    graph = helper.make_graph(
        chain.nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 6, 6])],
        [helper.make_tensor_value_info(chain.last, TensorProto.FLOAT, ["n", 5])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=_IR.get(opset, 8))
