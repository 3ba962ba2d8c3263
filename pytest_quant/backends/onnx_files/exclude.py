"""Nodes that the user names in their own file, and the nodes they became in a graph that was made from it."""

from __future__ import annotations

import re
from collections.abc import Collection

import onnx

from pytest_quant.errors import UsageError, nearest
from pytest_quant.spec import EngineSpec

_LONGEST = 400
"""A large model has thousands of nodes, and one message is not the place for them."""


def check_excluded(spec: EngineSpec, known: Collection[str]) -> None:
    """Raise `UsageError` when `spec` excludes a node that is not `known`, so that nothing would be left in float."""
    for name in spec.exclude:
        if name not in known:
            message = f"exclude names a node that {spec.model.name} does not have"
            raise UsageError(message, value=repr(name), allowed=_some(name, known))


def names_made_of(name: str, model: onnx.ModelProto, made: Collection[str]) -> set[str]:
    """Return the names of the nodes that a node of the user's model was turned into.

    Nodes of a function's call are called ``call/name__1``, and two that fuse ``name/MatMulAddFusion``.

    Parameters
    ----------
    name : of a node of `model`, as ``exclude`` spells it.
    model : the user's model, with the functions that its file defines.
    made : names of the nodes of a graph made from `model`, without those that `model` has itself.

    Returns
    -------
    A subset of `made`; empty where nothing was made from the node.
    """
    found = {one for one in made if one.startswith(f"{name}/")}
    if any(node.name == name for function in model.functions for node in function.node):
        inlined = re.compile(rf"(^|/){re.escape(name)}(__\d+)?(/|$)")
        found |= {one for one in made if inlined.search(one)}
    return found


def _some(name: str, names: Collection[str]) -> str:
    if not names:
        return "none: its nodes have no names; give them some before export"
    near = nearest(name, names)
    return near if len(near) < _LONGEST else f"{near[:_LONGEST]} ... ({len(names)} nodes)"
