"""A graph of float32 that computes what its floats of sixteen bits would: each result is rounded to them.

ONNX Runtime has few kernels of sixteen bits for a CPU. It computes in float32 instead and drops the casts between two
such nodes, at every level of optimization, so that nothing between them is rounded or overflows. A cast to sixteen bits
and back behind a node of float32 is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper, parser, shape_inference
from onnx.external_data_helper import load_external_data_for_model

from pytest_quant.backends.onnx_files import read_graph, write_model
from pytest_quant.backends.onnx_files.graphs import all_graphs, opset_of, refill, rename_reads
from pytest_quant.backends.onnx_files.normalize import normalized
from pytest_quant.backends.ort.half import retype

LARGEST = 65504.0
_KINDS = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
_EXACT = " in float32"
"""Behind the name of a result: what its node gives."""

_WATCH = """<domain: "range", opset_import: ["": {}]> Watch (x) => (largest, beyond) {{
    limit = Constant<value = float {{65504}}>() size = Abs(x) largest = ReduceMax<keepdims = 0>(size)
    some = Greater(largest, limit)
    beyond = If(some)<then_branch = a () => (float n) {{
            high = Greater(size, limit) ones = Cast<to = 1>(high) n = ReduceSum<keepdims = 0>(ones) }},
        else_branch = b () => (float none) {{ none = Constant<value = float {{0}}>() }}> }}"""
"""The largest magnitude, and how many are beyond `LARGEST`; these are counted only where there are some."""


def write_rounded(source: Path, target: Path) -> tuple[Path, tuple[str, ...]]:
    """Write the model in `source` with float32 in the place of float16 and bfloat16, each result rounded to its type.

    Inputs and outputs stay as they are. A product or a sum is float32 inside, as tensor cores accumulate.

    Parameters
    ----------
    source : an ONNX file.
    target : the file to write.

    Returns
    -------
    The file to run, which is `source` where nothing has sixteen bits, and nodes, operator and name, whose results of
    float16 are watched: `target` has two more outputs for each, float32 scalars, behind its own. They are the largest
    magnitude before it is rounded, and the number beyond `LARGEST`. Left out are results in bodies of nodes, and what
    a Softmax reads: there a mask is below the lowest number.

    Raises
    ------
    ModelError : the file is missing or broken.
    """
    model = shape_inference.infer_shapes(normalized(read_graph(source)))
    outer, *_ = graphs = list(all_graphs(model.graph))
    values = [value for graph in graphs for value in (*graph.input, *graph.output, *graph.value_info)]
    kinds = {value.name: kind for value in values if (kind := value.type.tensor_type.elem_type) in _KINDS}
    if not kinds:
        return source, ()
    load_external_data_for_model(model, str(source.parent))
    for kind in _KINDS:
        retype(model, kind, TensorProto.FLOAT)
    for value in (*outer.input, *outer.output):
        value.type.tensor_type.elem_type = kinds.get(value.name, value.type.tensor_type.elem_type)
    shares = {name for node in outer.node if node.op_type == "Softmax" for name in node.input}
    halves = {name for name, kind in kinds.items() if kind == TensorProto.FLOAT16} - shares
    watched = [(node, name) for node in outer.node for name in node.output if name in halves]
    # From the inside out: a graph copies the nodes that it is given, with what is in them.
    for graph in reversed(graphs):
        given = [each.name for each in graph.input if graph is outer and each.name in kinds]
        rounded = _round_results(graph, kinds, given)
        for value in () if graph is outer else graph.output:
            value.name = rounded.get(value.name, value.name)
    model.functions.append(parser.parse_function(_WATCH.format(opset_of(model))))
    model.opset_import.add(domain="range", version=1)
    figures = [(f"{name}{_EXACT}", f"{name} at most", f"{name} beyond") for _, name in watched]
    for _, *names in figures:
        outer.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, ()) for name in names)
    # The last ones first: of nodes that nothing reads ONNX Runtime runs the last one first, and all that it needs. In
    # the other order it would keep every result until its figures are found.
    for exact, *names in reversed(figures):
        outer.node.append(helper.make_node("Watch", [exact], names, domain="range"))
    write_model(model, target)
    return target, tuple(f"{node.op_type} '{node.name or name}'" for node, name in watched)


def _round_results(graph: onnx.GraphProto, kinds: Mapping[str, int], given: Sequence[str]) -> dict[str, str]:
    """Round what the nodes of `graph` give, and return the names under which others read it.

    Parameters
    ----------
    kinds : types of results.
    given : inputs of sixteen bits.
    """
    made = [name for node in graph.node for name in node.output if name in kinds]
    rounded = {name: f"{name} rounded" for name in (*given, *made)}
    rename_reads(graph.node, rounded)
    nodes = [_cast(name, rounded[name], TensorProto.FLOAT) for name in given]
    for node in graph.node:
        nodes.append(node)
        for place, name in enumerate(node.output):
            if name in rounded:
                node.output[place] = f"{name}{_EXACT}"
                nodes.append(_cast(node.output[place], name, kinds[name]))
                nodes.append(_cast(name, rounded[name], TensorProto.FLOAT))
    refill(graph.node, nodes)
    del graph.value_info[:]
    return rounded


def _cast(read: str, made: str, kind: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [read], [made], to=kind)


def range_notes(watched: Sequence[str], figures: Sequence[float]) -> Iterator[str]:
    """Yield a sentence on the first result beyond the range of float16; else on the largest in its upper half.

    Parameters
    ----------
    watched : nodes, in the order of the graph.
    figures : of each the largest magnitude, and the most in one run that were beyond, one after the other.
    """
    found = list(zip(watched, figures[::2], figures[1::2], strict=True))
    beyond = [each for each in found if each[2]]
    # A mask is the largest number itself.
    near = [(largest, node) for node, largest, _ in found if LARGEST / 2 < largest < LARGEST]
    if beyond:
        # What is infinite already was made so by another.
        node, largest, count = min(beyond, key=lambda found: math.isinf(found[1]))
        yield f"float16 ends at 65504: {node} reaches {largest:.4g}, {count:.0f} values of one run are beyond"
    elif near:
        yield "float16 ends at 65504, and {1} reaches {0:.4g}".format(*max(near))
