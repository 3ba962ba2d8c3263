"""A graph with floats of sixteen bits node by node: onnx's own evaluator in float32, each result rounded by numpy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Values = dict[str, Any]

_HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def run_in_half(path: Path, feeds: Mapping[str, NDArray[Any]]) -> Values:
    """Return the outputs of the model in `path`: what reads sixteen bits gives them, a cast what it says."""
    model = onnx.load(path)
    with np.errstate(all="ignore"):
        return _run_graph(model.graph, model.opset_import, dict(feeds))


def _run_graph(graph: onnx.GraphProto, opsets: Any, values: Values) -> Values:
    values = values | {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    waiting = list(graph.node)
    while waiting:
        node = next(node for node in waiting if all(name in values for name in node.input if name))
        waiting.remove(node)
        run = {"If": _run_if, "Loop": _run_loop}.get(node.op_type, _run_node)
        values |= zip(node.output, run(node, opsets, values), strict=False)
    return {value.name: values[value.name] for value in graph.output}


def _run_if(node: onnx.NodeProto, opsets: Any, values: Values) -> list[Any]:
    branches = {each.name: each.g for each in node.attribute}
    branch = branches["then_branch" if values[node.input[0]] else "else_branch"]
    return list(_run_graph(branch, opsets, values).values())


def _run_loop(node: onnx.NodeProto, opsets: Any, values: Values) -> list[Any]:
    """Run the body as often as the trip count says; what it carries, and nothing else, are its results."""
    body = node.attribute[0].g
    carried = [values[name] for name in node.input[2:]]
    for turn in range(int(values[node.input[0]])):
        given = zip([value.name for value in body.input], [np.int64(turn), np.bool_(True), *carried], strict=True)
        outputs = _run_graph(body, opsets, values | dict(given))
        carried = [outputs[value.name] for value in body.output[1:]]
    return carried


def _run_node(node: onnx.NodeProto, opsets: Any, values: Values) -> list[Any]:
    """Run one node in float32; its floats have the type of those of sixteen bits that it reads, or casts to."""
    given = {name: np.asarray(values[name]) for name in node.input if name}
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    kind = next((array.dtype for array in given.values() if array.dtype in _HALVES), np.dtype(np.float32))
    if node.op_type == "Cast":
        kind = helper.tensor_dtype_to_np_dtype(attributes["to"])
        attributes["to"] = TensorProto.FLOAT if kind in _HALVES else attributes["to"]
    given = {name: array.astype(np.float32) if array.dtype in _HALVES else array for name, array in given.items()}
    alone = helper.make_node(node.op_type, node.input, node.output, domain=node.domain, **attributes)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([alone], "one", infos, results)
    outputs = map(np.asarray, ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets)).run(None, given))
    return [each.astype(kind) if each.dtype == np.float32 else each for each in outputs]
