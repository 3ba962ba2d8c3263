"""Nodes that stay in float: the user names them in their model, NNCF knows them by OpenVINO's names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_quant.backends.onnx_files import (
    all_graphs,
    all_nodes,
    check_excluded,
    model_file,
    names_made_of,
    read_graph,
)
from pytest_quant.backends.openvino.files import is_own
from pytest_quant.spec import EngineSpec

_NOT_COMPUTED = ("Constant", "Parameter", "Result")


def excluded_nodes(spec: EngineSpec, model: Any, normal: Path) -> list[str]:
    """Return OpenVINO's names of what `model`, read from the file `normal`, computes for the nodes `spec` excludes.

    NNCF quantizes the branches of an If too; what it leaves in float anyway has no names here.

    Raises
    ------
    UsageError : the user's model has no node of that name, so that nothing would be left in float.
    """
    if not spec.exclude:
        return []
    if is_own(spec.model):
        known = {name: {name} for name in (one.get_friendly_name() for one in model.get_ordered_ops())}
        check_excluded(spec, known)
        return sorted(set().union(*(known[name] for name in spec.exclude)))
    theirs = read_graph(model_file(spec.model))
    names = {node.name for node in all_nodes(theirs) if node.name}
    check_excluded(spec, names)
    parts: dict[str, set[str]] = defaultdict(set)
    for graph in all_graphs(read_graph(normal).graph):
        for one in _models(model):
            for name, operations in _operations(one, graph).items():
                parts[name] |= operations
    made = parts.keys() - names
    named = {one for name in spec.exclude for one in (name, *names_made_of(name, theirs, made))}
    return sorted({operation for name in named for operation in parts[name]})


def _models(model: Any) -> Iterator[Any]:
    """Yield `model` and the branches of each If in it."""
    yield model
    for operation in model.get_ordered_ops():
        if operation.get_type_name() == "If":
            for branch in (0, 1):
                yield from _models(operation.get_function(branch))


def _operations(model: Any, graph: Any) -> dict[str, set[str]]:
    """Return by the name of each ONNX node the operations that compute it.

    Names do not tell: a MatMul in front of a Dropout is called like the Dropout, a node that gives an output of the
    model is called like the output, and the recurrence of an LSTM has a number. Tensors do: an operation whose
    result is no tensor of the ONNX graph belongs to the nodes that take it, and a node none of whose results is
    left has become part of those that take them.
    """
    parts = _parts(model, {tensor: place for place, node in enumerate(graph.node) for tensor in node.output if tensor})
    takers: dict[str, set[int]] = defaultdict(set)
    known: dict[str, set[str]] = defaultdict(set)
    for place, node in reversed(list(enumerate(graph.node))):
        if not parts[place]:
            parts[place].update(*(parts[taker] for tensor in node.output for taker in takers[tensor]))
        for tensor in node.input:
            takers[tensor].add(place)
        if node.name:
            known[node.name] |= parts[place]
    return dict(known)


def _parts(model: Any, made_by: dict[str, int]) -> dict[int, set[str]]:
    """Return by the place of each ONNX node the operations whose results lead to its tensors."""
    parts: dict[int, set[str]] = defaultdict(set)
    places: dict[str, set[int]] = {}
    for operation in reversed(model.get_ordered_ops()):
        if operation.get_type_name() in _NOT_COMPUTED:
            continue
        name, ports = operation.get_friendly_name(), operation.outputs()
        own = {made_by[tensor] for port in ports for tensor in port.get_names() if tensor in made_by}
        next_ones = [one.get_node().get_friendly_name() for port in ports for one in port.get_target_inputs()]
        places[name] = own or set().union(*(places.get(one, set()) for one in next_ones))
        for place in places[name]:
            parts[place].add(name)
    return parts
