"""Which nodes of the user's model each node of an optimized graph stands for, by tensors first and then by names.

ONNX Runtime fuses nodes and changes layouts, and the quantizers before it put nodes in between. A fused node keeps the
last tensor that it computes, so it stands for all nodes between that tensor and those that other nodes compute. Changes
of layout give tensors names of their own, but build the name of the node on an old one: ``conv1_nchwc``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

import onnx

from pytest_quant.backends.base import Engine
from pytest_quant.backends.offer import check_excluded
from pytest_quant.backends.onnx_files import model_file, read_nodes
from pytest_quant.backends.onnx_files.graphs import all_nodes, constant_names
from pytest_quant.backends.onnx_files.normalize import normalize_model
from pytest_quant.backends.readback import Role
from pytest_quant.spec import EngineSpec

_REFORMATS = frozenset({"DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear", "ReorderInput", "ReorderOutput"})
PARTED = "pytest_quant_parted"
"""How the names of nodes begin that part an excluded node from dequantized tensors."""

_AT_TIMES = frozenset({"Cast", "Transpose"})
"""Reformats only where the model has no such node: the optimizer adds them, and so do users."""


class _Source:
    """The user's graph: who makes each tensor, and which nodes are folded into constants."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph = graph
        self.names: list[str] = []
        self.producer: dict[str, int] = {}
        self.folded: set[int] = set()
        # Places of nodes by their names and by those of their outputs.
        self.anchors: dict[str, int] = {}
        constants = constant_names(graph)
        self.tensors = {value.name for value in graph.input} | constants
        for place, node in enumerate(graph.node):
            # Without a name it is called as TensorRT's parser calls it.
            self.names.append(node.name or f"node_of_{node.output[0] if node.output else ''}")
            outputs = [name for name in node.output if name]
            self.tensors.update(outputs)
            self.producer.update(dict.fromkeys(outputs, place))
            if node.op_type == "Constant" or (node.input and constants.issuperset(filter(None, node.input))):
                constants.update(outputs)
                self.folded.add(place)
            for name in (*outputs, node.name):
                if name:
                    self.anchors[name] = place

    def anchor(self, name: str) -> int | None:
        """Return the place of the node with the longest name, its own or of an output, that `name` is built on."""
        end = len(name)
        while end > 0:
            index = self.anchors.get(name[:end])
            if index is not None:
                return index
            end = max(name.rfind(mark, 0, end) for mark in "_/:.")
        return None

    def until(self, ends: set[str], stops: set[str], dropped: set[int]) -> set[int]:
        """Return the places of the nodes that compute `ends` from the tensors `stops`.

        Parameters
        ----------
        ends, stops : names of tensors.
        dropped : places of nodes that may be passed, and are not among those returned, as folded ones are not.
        """
        first = {self.producer[name] for name in ends if name in self.producer}
        seen, waiting = set(self.folded), list(first)
        while waiting:
            place = waiting.pop()
            if place not in seen:
                seen.add(place)
                inputs = [name for name in self.graph.node[place].input if name not in stops]
                waiting += [self.producer[name] for name in inputs if name in self.producer]
        return (seen - dropped - self.folded) | (first - self.folded)

    def name_layers(self, ends: Sequence[set[str]], dropped: Collection[int] = ()) -> list[tuple[str, ...]]:
        """Return for each layer that computes the tensors `ends` the names of the nodes it stands for, in their order.

        Nodes that no layer computes by name, a dropped activation for one, belong to the layer before them.
        """
        computed = set().union(*ends)
        claims = [self.until(own, computed, set(dropped)) for own in ends]
        owners: dict[int, list[set[int]]] = defaultdict(list)
        for claim in claims:
            for place in claim:
                owners[place].append(claim)
        for place, node in enumerate(self.graph.node):
            if place in owners or place in self.folded:
                continue
            before = (owners[made_at] for name in node.input if (made_at := self.producer.get(name, -1)) in owners)
            if inherited := next(before, []):
                owners[place] = inherited
                for claim in inherited:
                    claim.add(place)
        return [tuple(dict.fromkeys(self.names[place] for place in sorted(places))) for places in claims]


def find_user_nodes(model: onnx.GraphProto, origins: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return for each layer the nodes of `model` that it stands for, in their order.

    Parameters
    ----------
    model : the graph that the user knows.
    origins : for each layer the names of operators that became part of it, each built on the name of a node or of its
        output: ``conv1/WithoutBiases``. A runtime that fuses two may keep the name of one: what lies between nodes that
        are named belongs to the layer that reads it, or else to the one before.
    """
    source = _Source(model)
    named = [{place for name in names if (place := source.anchor(name)) is not None} for names in origins]
    return source.name_layers([{name for place in places for name in model.node[place].output} for places in named])


def excluded_parts(spec: EngineSpec, candidates: Collection[str]) -> dict[str, set[str]]:
    """Return for each node that `spec` excludes the `candidates` that it is, or was turned into.

    Nodes of a function's call are called ``call/name__1``, and two that fuse ``name/MatMulAddFusion``.

    Parameters
    ----------
    spec : its `exclude` names nodes of an ONNX file, in the functions that the file defines too.
    candidates : names of the nodes of a graph made from that file.

    Raises
    ------
    UsageError : the model has no node of such a name, so that nothing would be left in float.
    """
    model = read_nodes(model_file(spec.model))
    theirs = {node.name for node in all_nodes(model) if node.name}
    check_excluded(spec, theirs)
    in_functions = {node.name for function in model.functions for node in function.node}
    parts: dict[str, set[str]] = {}
    for name in spec.exclude:
        turned_into = rf"(^|/){re.escape(name)}(__\d+)?(/|$)" if name in in_functions else f"^{re.escape(name)}/"
        parts[name] = {each for each in candidates if each not in theirs and re.search(turned_into, each)}
        parts[name] |= {name}.intersection(candidates)
    return parts


def excluded_among(engine: Engine, names: Collection[str]) -> list[str]:
    """Return the nodes that are excluded from `engine`, as its spec names them, that one of `names` is built on.

    Raises `UsageError` when the model has no node of such a name: if it arrives quantized, nobody looked before.
    """
    model = normalize_model(read_nodes(model_file(engine.spec.model)))
    source = _Source(onnx.GraphProto(node=all_nodes(model)))
    built_on = {source.names[place] for name in names if (place := source.anchor(name)) is not None}
    return [name for name, parts in excluded_parts(engine.spec, built_on).items() if parts]


def trace(
    optimized: onnx.GraphProto, engine: onnx.GraphProto, model: onnx.GraphProto
) -> list[tuple[tuple[str, ...], Role]]:
    """Return for each node of `optimized` the nodes of `model` that it stands for, in their order, and its role.

    Parameters
    ----------
    optimized : what ONNX Runtime made of `engine`.
    engine : the graph that was opened, with Q/DQ pairs for one.
    model : the graph that the user knows.
    """
    source = _Source(model)
    makers = [{name: node for node in graph.node for name in node.output if name} for graph in (optimized, engine)]
    roles = [_role(node, source) for node in optimized.node]
    ends = [
        set() if role in ("reformat", "copy") else set(_ends(node, source, makers))
        for node, role in zip(optimized.node, roles, strict=True)
    ]
    engine_names = {node.name for node in engine.node}
    # Activations that the quantizer drops, because the range of the integers before them does the same.
    clipping = [(place, node.name) for place, node in enumerate(model.node) if node.op_type in ("Clip", "Relu")]
    dropped = [place for place, name in clipping if name not in engine_names]
    return [
        (names, role if names or role != "compute" else "other")
        for names, role in zip(source.name_layers(ends, dropped), roles, strict=True)
    ]


def _role(node: onnx.NodeProto, source: _Source) -> Role:
    if node.op_type in ("MemcpyFromHost", "MemcpyToHost"):
        return "copy"
    if node.op_type in _REFORMATS or node.name.startswith(PARTED):
        return "reformat"
    if node.op_type in _AT_TIMES:
        place = source.anchor(node.name)
        places = {*([] if place is None else [place]), *(source.producer.get(name, -1) for name in node.output)}
        if not any(place >= 0 and source.graph.node[place].op_type == node.op_type for place in places):
            return "reformat"
    return "compute"


def _ends(node: onnx.NodeProto, source: _Source, makers: Sequence[dict[str, onnx.NodeProto]]) -> Iterator[str]:
    """Yield the tensors of the user's graph that `node` computes."""
    ends = [end for name in node.output if (end := _find_user_tensor(name, source, makers)) is not None]
    if ends:
        yield from ends
        return
    place = source.anchor(node.name)
    if place is not None:
        yield from filter(None, source.graph.node[place].output)


def _find_user_tensor(name: str, source: _Source, makers: Sequence[dict[str, onnx.NodeProto]]) -> str | None:
    """Return the tensor of the user's graph that holds the values of `name`, before it was quantized or moved."""
    seen = set()
    while name and name not in source.tensors and name not in seen:
        seen.add(name)
        moving = (by_name[name] for by_name in makers if name in by_name)
        name = next((node.input[0] for node in moving if _role(node, source) in ("reformat", "copy")), "")
    return name if name in source.tensors else None
