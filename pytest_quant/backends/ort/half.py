"""Graphs of sixteen bits: one whose floats have them, and one of float32 that computes what those would.

In the first, what is float32 for TensorRT's strong types is float32. Around Q/DQ pairs the scales get the same type,
for a pair gives the type of its scale to what reads it. That is what TensorRT fuses into INT8 products, and what
operators take since opset 19. What is computed from the sizes of inputs alone stays float32: the anchors of a detector
are coordinates, which eleven bits do not count, and TensorRT itself computes sizes in float32 or not at all.

In the second, each result is rounded. ONNX Runtime has few kernels of sixteen bits for a CPU. It computes in float32
instead and drops the casts between two such nodes, at every level of optimization, so that nothing between them is
rounded or overflows. A cast to sixteen bits and back behind a node of float32 is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, parser, shape_inference
from onnx.external_data_helper import load_external_data_for_model

from pytest_quant.backends.onnx_files import read_graph, write_model
from pytest_quant.backends.onnx_files.graphs import all_graphs, all_nodes, opset_of, refill, rename_reads
from pytest_quant.backends.onnx_files.normalize import normalize_model, raise_opset
from pytest_quant.backends.ort.session import translate_errors
from pytest_quant.backends.runtime import quiet
from pytest_quant.errors import BuildError

_PAIRS = frozenset({"QuantizeLinear", "DequantizeLinear"})
_PAIRS_IN_HALF = 19
"""First opset whose pairs have scales of sixteen bits."""


def write_half(source: Path, target: Path, kind: str = "fp16") -> None:
    """Write the model in `source` with floats of sixteen bits inside, inputs and outputs as they were.

    Parameters
    ----------
    source : an ONNX file, with or without Q/DQ pairs.
    target : the file to write, which may be the same one.
    kind : ``fp16``, where numbers beyond its range become its largest or smallest ones, or ``bf16``.

    Raises
    ------
    BuildError : ONNX Runtime's converter does not take the model, it has no float32 weights, or its opset cannot be
        raised to one that has pairs of that type.
    """
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = normalize_model(onnx.load(source))
    if 0 < opset_of(model) < _PAIRS_IN_HALF and any(node.op_type in _PAIRS for node in all_nodes(model)):
        need = f"Q/DQ pairs in {kind} need {_PAIRS_IN_HALF} or later"
        model = normalize_model(raise_opset(model, _PAIRS_IN_HALF, source.name, need=need, fix="or leave out `beside`"))
    floats = (tensor for tensor in _tensors(model) if tensor.data_type == TensorProto.FLOAT)
    exact = {tensor.name: deepcopy(tensor) for tensor in floats} if kind == "bf16" else {}
    whole = _list_size_nodes(model)
    ours = {node.name for node in all_nodes(model)}
    with translate_errors(f"to convert {source.name} to {kind}"), quiet():
        half = convert_float_to_float16(model, keep_io_types=True, node_block_list=whole)
    if not any(tensor.data_type == TensorProto.FLOAT16 for tensor in _tensors(half)):
        raise BuildError(f"{source.name} has no float32 weights: {kind} changes nothing", fix="write precision='fp32'")
    _keep_whole(half, ours)
    if kind == "bf16":
        # Weights are rounded once, from their float32 values.
        retype(half, TensorProto.FLOAT16, TensorProto.BFLOAT16, exact)
    write_model(half, target)


def _list_size_nodes(model: onnx.ModelProto) -> list[str]:
    """Return the names of nodes that read sizes, and constants, and nothing else; those without a name get one."""
    names = {tensor.name for tensor in _tensors(model)} | {""}
    sizes: set[str] = set()
    sized = []
    for node in all_nodes(model):
        if node.op_type in ("Shape", "Size"):
            sizes.update(node.output)
        elif node.op_type not in _PAIRS and not sizes.isdisjoint(node.input) and sizes | names >= set(node.input):
            sizes.update(node.output)
            # As TensorRT's parser would call it.
            node.name = node.name or f"node_of_{node.output[0]}"
            sized.append(node.name)
    return sized


def _keep_whole(model: onnx.ModelProto, taken: set[str]) -> None:
    """Let a node that stayed float32 read another such node itself, and not by way of the casts between them.

    A node that reads one tensor twice got a cast for each, of one name, which no graph may have.
    """
    before = {node.output[0]: node.input[0] for node in all_nodes(model) if _is_added_cast(node, taken)}
    for node in all_nodes(model):
        for place, name in enumerate(node.input):
            if not _is_added_cast(node, taken) and before.get(name) in before:
                node.input[place] = before[before[name]]
    # Once for the casts to float32 that nothing reads now, and once for those that only these read.
    for _ in range(2):
        read = {name for node in all_nodes(model) for name in node.input}
        read |= {value.name for graph in all_graphs(model.graph) for value in graph.output}
        for graph in all_graphs(model.graph):
            nodes = []
            for node in graph.node:
                if not _is_added_cast(node, taken) or node.output[0] in read:
                    nodes.append(node)
                    read -= {*node.output}
            refill(graph.node, nodes)


def _is_added_cast(node: onnx.NodeProto, taken: set[str]) -> bool:
    """Whether the converter wrote it: a cast with a name that the graph did not have."""
    return node.op_type == "Cast" and bool(node.name) and node.name not in taken


def _tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    return (tensor for graph in all_graphs(model.graph) for tensor in graph.initializer)


def retype(model: onnx.ModelProto, old: int, new: int, exact: Mapping[str, TensorProto] | None = None) -> None:
    """Turn the element type `old` into `new` throughout `model`, the graphs in it and their inputs and outputs too.

    Parameters
    ----------
    exact : the values that initializers are rounded from, by name; of others their own.
    """
    for tensor in _tensors(model):
        _convert(tensor, (exact or {}).get(tensor.name, tensor), old, new)
    for node in all_nodes(model):
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype", "output_dtype") and attribute.i == old:
                attribute.i = new
            _convert(attribute.t, attribute.t, old, new)
    for graph in all_graphs(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type == old:
                value.type.tensor_type.elem_type = new


def _convert(tensor: TensorProto, exact: TensorProto, old: int, new: int) -> None:
    if tensor.data_type != old:
        return
    values: NDArray[np.float32] = numpy_helper.to_array(exact).astype(np.float32)
    converted = values.astype(helper.tensor_dtype_to_np_dtype(new))
    tensor.CopyFrom(helper.make_tensor(tensor.name, new, tensor.dims, converted.tobytes(), raw=True))


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
    model = shape_inference.infer_shapes(normalize_model(read_graph(source)))
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
