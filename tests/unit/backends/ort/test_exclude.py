"""Excluded nodes keep their meaning when the prepared model calls them something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.backends.ort.recipe import excluded_nodes
from pytest_quant.errors import UsageError
from pytest_quant.spec import EngineSpec
from pytest_quant.testing.conformance.examples import conv, dense


def _spec(folder: Path, *names: str) -> EngineSpec:
    return EngineSpec("ort", "int8", "static", dense().write(folder), exclude=names)


def test_fused_and_split_names(tmp_path: Path) -> None:
    """A fused node carries the first name and a suffix; a Gemm that is split again another one."""
    path = tmp_path / "prepared.onnx"
    prepared = dense().proto
    prepared.graph.node[0].name = "first/MatMulAddFusion"
    path.write_bytes(prepared.SerializeToString())
    assert set(excluded_nodes(_spec(tmp_path, "first"), path)) == {
        "first", "first_MatMul", "first/MatMulAddFusion", "first/MatMulAddFusion_MatMul"
    }  # fmt: skip


def test_nodes_of_the_user_are_not_swept_along(tmp_path: Path) -> None:
    """A node of the user's own whose name begins with an excluded one stays quantized."""
    model = dense().proto
    model.graph.node[3].name = "first/second"
    path = tmp_path / "dense.onnx"
    spec = _spec(tmp_path, "first")
    path.write_bytes(model.SerializeToString())
    assert "first/second" not in excluded_nodes(spec, path)


def test_unknown_name(tmp_path: Path) -> None:
    """A name that the model does not have is an error with the nearest one."""
    with pytest.raises(UsageError, match="does not have") as caught:
        excluded_nodes(_spec(tmp_path, "frist"), tmp_path / "dense.onnx")
    assert "did you mean 'first'" in str(caught.value)


def test_nodes_without_names(tmp_path: Path) -> None:
    """A model whose nodes have no names says so."""
    spec = _spec(tmp_path, "first")
    model = conv().proto
    for node in model.graph.node:
        node.name = ""
    (tmp_path / "dense.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UsageError, match="have no names"):
        excluded_nodes(spec, tmp_path / "dense.onnx")
