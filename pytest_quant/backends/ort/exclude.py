"""Nodes that stay in float: the user names them in their model, the quantizer knows them in the prepared one."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from pytest_quant.backends.onnx_files import all_nodes, model_file, read_graph
from pytest_quant.errors import UsageError, nearest
from pytest_quant.spec import EngineSpec


def excluded_nodes(spec: EngineSpec, prepared: Path) -> list[str]:
    """Return the names by which the quantizer knows the nodes that `spec` excludes.

    A name may stand in the body of an If, Loop or Scan or in a function of the file; all nodes of that name are meant.

    Raises
    ------
    UsageError : the model has no node of that name, so that nothing would be left in float.
    """
    if not spec.exclude:
        return []
    model = read_graph(model_file(spec.model))
    theirs = {node.name for node in all_nodes(model) if node.name}
    for name in spec.exclude:
        if name not in theirs:
            raise UsageError(
                f"exclude names a node that {spec.model.name} does not have",
                value=repr(name),
                allowed=_some(name, theirs),
            )
    ours = {node.name for node in all_nodes(read_graph(prepared))} - theirs
    inside = {node.name for function in model.functions for node in function.node}
    found = {one for name in spec.exclude for one in _follow(name, ours, inside)}
    return sorted(found | {f"{one}_MatMul" for one in found})


def _follow(name: str, ours: Collection[str], inside: Collection[str]) -> set[str]:
    """Return the names of a node in the prepared model; a Gemm may be split again into ``name_MatMul``.

    MatMul and Add fuse into ``name/MatMulAddFusion``, nodes of a function's call are ``call/name__1``.
    """
    found = {name} | {one for one in ours if one.startswith(f"{name}/")}
    if name in inside:
        inlined = re.compile(rf"(^|/){re.escape(name)}(__\d+)?(/|$)")
        found |= {one for one in ours if inlined.search(one)}
    return found


def _some(name: str, names: Collection[str]) -> str:
    """A large model has thousands of nodes, and one message is not the place for them."""
    if not names:
        return "none: its nodes have no names; give them some before export"
    near = nearest(name, names)
    return near if len(near) < 400 else f"{near[:400]} ... ({len(names)} nodes)"
