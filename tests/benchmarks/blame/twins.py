"""Two products that round badly in the same way, one of them taken from the other: their errors cancel."""

from __future__ import annotations

import numpy as np
import onnx

from pytest_quant.backends.onnx_files.graphs import refill
from tests.benchmarks.blame.graph import Graph

OUTLIER = 64.0


def add(graph: Graph, name: str, draw: np.random.Generator) -> bool:
    """Add to what the product of a name gives the difference of two others that are alike, which is 0.

    One row of their weights is `OUTLIER` times as large, so that each alone loses most of its digits. Tells whether
    the product is one that can have twins.
    """
    node = next(each for each in graph.nodes if each.name == name)
    weight = graph.array(node.input[1])
    if weight is None or node.output[0] in graph.outputs:
        return False
    rows = weight if node.op_type == "Conv" else np.moveaxis(weight, -2 if weight.ndim > 1 else -1, 0)
    wrong = draw.permutation(weight.ravel()).reshape(weight.shape).astype(np.float32)
    big = wrong if node.op_type == "Conv" else np.moveaxis(wrong, -2, 0)
    big[int(draw.integers(len(rows)))] *= np.float32(OUTLIER)
    made, kept = node.output[0], f"{node.output[0]}_alone"
    node.output[0] = kept
    twins = []
    for side in ("left", "right"):
        twin = onnx.NodeProto()
        twin.CopyFrom(node)
        twin.name, twin.output[0] = f"{name}_{side}", f"{made}_{side}"
        # Weights of their own, so that neither an optimizer nor a quantizer takes the two for one.
        graph.model.graph.initializer.append(onnx.numpy_helper.from_array(wrong, f"{made}_{side}_weight"))
        twin.input[1] = f"{made}_{side}_weight"
        twins.append(twin)
    difference = onnx.helper.make_node("Sub", [each.output[0] for each in twins], [f"{made}_zero"], f"{name}_zero")
    total = onnx.helper.make_node("Add", [kept, f"{made}_zero"], [made], f"{name}_sum")
    nodes = []
    for each in graph.nodes:
        nodes.append(each)
        if each.name == name:
            nodes += [*twins, difference, total]
    refill(graph.model.graph.node, nodes)
    graph.refresh()
    return True
