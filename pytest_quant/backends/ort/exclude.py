"""Nodes that stay in float: the user names them in their model, the quantizer knows them in the prepared one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from pytest_quant.backends.onnx_files import model_file, read_graph
from pytest_quant.errors import UsageError, nearest
from pytest_quant.spec import EngineSpec


def excluded_nodes(spec: EngineSpec, prepared: Path) -> list[str]:
    """Return the names by which the quantizer knows the nodes that `spec` excludes.

    Raises
    ------
    UsageError : the model has no node of that name, so that nothing would be left in float.
    """
    if not spec.exclude:
        return []
    theirs = {node.name for node in read_graph(model_file(spec.model)).graph.node if node.name}
    for name in spec.exclude:
        if name not in theirs:
            raise UsageError(
                f"exclude names a node that {spec.model.name} does not have",
                value=repr(name),
                allowed=_some(name, theirs),
            )
    ours = [node.name for node in read_graph(prepared).graph.node]
    return sorted(_follow(spec.exclude, theirs, ours))


def _follow(names: Iterable[str], theirs: Collection[str], ours: Iterable[str]) -> set[str]:
    """MatMul and Add fuse into ``name/MatMulAddFusion``, and a Gemm may be split again into ``name_MatMul``."""
    named = {name for name in ours if name not in theirs}
    found: set[str] = set()
    for name in names:
        same = {name} | {fused for fused in named if fused.startswith(f"{name}/")}
        found |= same | {f"{one}_MatMul" for one in same}
    return found


def _some(name: str, names: Collection[str]) -> str:
    """A large model has thousands of nodes, and one message is not the place for them."""
    if not names:
        return "none: its nodes have no names; give them some before export"
    near = nearest(name, names)
    return near if len(near) < 400 else f"{near[:400]} ... ({len(names)} nodes)"
