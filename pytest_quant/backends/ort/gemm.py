"""Gemm in the one form that ONNX Runtime's quantizers take: ``x @ W + b``, with a b of one axis.

The standard has ``alpha * (x @ W) + beta * b`` and broadcasts b from (), (1,), (1, 1), (1, n), (m, 1) and (m, n). The
static quantizer divides b by beta and then drops beta, and looks b up by channel; a product with an alpha stays float.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from pytest_quant.backends.onnx_files.graphs import all_graphs, defined_names, fresh_name, opset_of, refill

# The attribute that scales what a Gemm reads at a place.
_FACTORS = {1: "alpha", 2: "beta"}


def fold_gemm_constants(model: onnx.ModelProto) -> None:
    """Multiply alpha and beta of each Gemm into its constants, and give a constant bias the shape (n,).

    A bias whose rows differ is added by a node of its own, ``name/bias``. Operands that are not constant stay, and so
    do those of a Gemm whose type overflows. Results differ by the rounding of one product at most. What was replaced
    is read by nobody, but by those who shared it.

    Parameters
    ----------
    model : in its normal form, so that no two graphs in it give one name to two tensors; it is changed.
    """
    # Before opset 7 an attribute says whether a bias may be broadcast at all.
    graphs = list(all_graphs(model.graph)) if opset_of(model) >= 7 else []
    taken = {name for graph in graphs for name in defined_names(graph)}
    tensors = {tensor.name: tensor for graph in graphs for tensor in graph.initializer}
    # Inner ones first: a graph whose nodes are replaced holds copies of those inside it.
    for graph in reversed(graphs):
        nodes = []
        for node in graph.node:
            nodes.append(node)
            if node.op_type == "Gemm":
                nodes += _fold(node, graph, tensors, taken)
        refill(graph.node, nodes)


def _fold(
    node: onnx.NodeProto, graph: onnx.GraphProto, tensors: Mapping[str, onnx.TensorProto], taken: set[str]
) -> list[onnx.NodeProto]:
    """Change a Gemm of `graph` and return the node that adds its bias, where that is another one for each row."""
    read = {place: tensors[name] for place, name in enumerate(node.input) if place and name in tensors}
    given = {place: numpy_helper.to_array(tensor) for place, tensor in read.items()}
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    factors = {place: attributes.get(_FACTORS[place], 1.0) for place in given}
    with np.errstate(over="ignore"):
        folded = {
            place: value if factors[place] == 1.0 else (value.astype(np.float64) * factors[place]).astype(value.dtype)
            for place, value in given.items()
        }
    if not all(value.dtype.kind == "f" and np.isfinite(value).all() for value in folded.values()):
        return []
    differ = False
    if 2 in folded:
        channels = folded[1].shape[0 if attributes.get("transB") else 1] if 1 in folded else folded[2].shape[-1:] or 1
        rows = np.atleast_2d(folded[2]) + np.zeros(channels, folded[2].dtype)
        differ = not len(rows) or bool((rows != rows[0]).any())
        folded[2] = folded[2] if differ or folded[2].shape == rows[0].shape else rows[0]
    for attribute in [each for each in node.attribute if each.name in {_FACTORS[place] for place in folded}]:
        node.attribute.remove(attribute)
    for place in (place for place, value in folded.items() if value is not given[place]):
        node.input[place] = fresh_name(f"{node.input[place]}_folded", taken)
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(folded[place]), node.input[place]))
    if not differ:
        return []
    result, node.output[0] = node.output[0], fresh_name(f"{node.output[0]}_product", taken)
    return [helper.make_node("Add", [node.output[0], node.input.pop()], [result], node.name and f"{node.name}/bias")]
