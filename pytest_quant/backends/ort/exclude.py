"""Nodes that stay in float: the user names them in their model, the quantizer knows them in the prepared one."""

from __future__ import annotations

from pathlib import Path

from pytest_quant.backends.onnx_files import all_nodes, check_excluded, model_file, names_made_of, read_graph
from pytest_quant.spec import EngineSpec


def excluded_nodes(spec: EngineSpec, prepared: Path) -> list[str]:
    """Return the names by which the quantizer knows the nodes that `spec` excludes.

    A name may stand in the body of an If, Loop or Scan or in a function of the file; all nodes of that name are meant.
    A Gemm may be split again into ``name_MatMul``.

    Raises
    ------
    UsageError : the model has no node of that name, so that nothing would be left in float.
    """
    if not spec.exclude:
        return []
    model = read_graph(model_file(spec.model))
    theirs = {node.name for node in all_nodes(model) if node.name}
    check_excluded(spec, theirs)
    made = {node.name for node in all_nodes(read_graph(prepared))} - theirs
    found = {one for name in spec.exclude for one in (name, *names_made_of(name, model, made))}
    return sorted(found | {f"{one}_MatMul" for one in found})
