"""Nodes that stay in float: the user names them in their model, NNCF knows them by OpenVINO's names."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pytest_quant.backends.onnx_files import model_file, read_graph
from pytest_quant.backends.openvino.files import is_own
from pytest_quant.errors import UsageError, nearest
from pytest_quant.spec import EngineSpec

_LONGEST = 400
_NOT_COMPUTED = ("Constant", "Parameter", "Result")


def excluded_nodes(spec: EngineSpec, model: Any) -> list[str]:
    """Return OpenVINO's names of what `model` computes for the nodes that `spec` excludes.

    Raises
    ------
    UsageError : the model has no node of that name, so that nothing would be left in float.
    """
    if not spec.exclude:
        return []
    if is_own(spec.model):
        known = {name: {name} for name in (one.get_friendly_name() for one in model.get_ordered_ops())}
    else:
        known = _operations(model, read_graph(model_file(spec.model)).graph)
    for name in spec.exclude:
        if name not in known:
            message = f"exclude names a node that {spec.model.name} does not have"
            raise UsageError(message, value=repr(name), allowed=_some(name, known))
    return sorted(set().union(*(known[name] for name in spec.exclude)))


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


def _some(name: str, known: dict[str, set[str]]) -> str:
    """A large model has thousands of nodes, and one message is not the place for them."""
    if not known:
        return "none: its nodes have no names; give them some before export"
    near = nearest(name, known)
    return near if len(near) < _LONGEST else f"{near[:_LONGEST]} ... ({len(known)} nodes)"
