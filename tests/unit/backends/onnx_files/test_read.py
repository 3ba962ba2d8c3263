"""Broken model files are told apart from whole ones."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from pytest_quant.backends.onnx_files import model_file, read_graph
from pytest_quant.errors import ModelError, UsageError
from pytest_quant.spec import Model
from pytest_quant.testing.conformance.examples import dense
from tests.support.models import parsed


def test_whole_model_is_read(tmp_path: Path) -> None:
    """A whole model keeps its nodes."""
    path = model_file(dense().write(tmp_path))
    assert [node.op_type for node in read_graph(path).graph.node] == ["MatMul", "Add", "Relu", "MatMul"]


def test_suffix_does_not_matter(tmp_path: Path) -> None:
    """A model is read as protobuf whatever its file is called."""
    path = model_file(dense().write(tmp_path)).rename(tmp_path / "model.json")
    assert read_graph(path).graph.node


def test_a_model_without_outputs(tmp_path: Path) -> None:
    """It is whole, and there is nothing that could be compared."""
    path = model_file(dense().write(tmp_path))
    model = onnx.load(path)
    del model.graph.output[:]
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="has no output") as caught:
        read_graph(path)
    assert "4 nodes" in str(caught.value)
    assert "whole" not in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    """A missing file is named, with what a relative path counts from."""
    with pytest.raises(ModelError, match="does not exist") as caught:
        read_graph(tmp_path / "gone.onnx")
    assert "gone.onnx" in str(caught.value)
    assert "relative" in str(caught.value)


def test_folder(tmp_path: Path) -> None:
    """A folder in the place of the file is not a model."""
    with pytest.raises(ModelError, match="not a file"):
        read_graph(tmp_path)


@pytest.mark.parametrize("kept", [0.05, 0.5, 0.99])
def test_truncated_file(tmp_path: Path, kept: float) -> None:
    """A model cut off anywhere is told, with the bytes that are there."""
    path = model_file(dense().write(tmp_path))
    content = path.read_bytes()[: int(kept * path.stat().st_size)]
    path.write_bytes(content)
    with pytest.raises(ModelError, match=f"{len(content)} bytes"):
        read_graph(path)


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", b"\x00" * 64])
def test_something_else(tmp_path: Path, content: bytes) -> None:
    """An empty file, a Git LFS pointer and zeros are not ONNX, and the message names Git LFS."""
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="git lfs pull"):
        read_graph(path)


def test_torch_module_has_no_file() -> None:
    """A torch module is refused with the way to export it."""
    with pytest.raises(UsageError, match=r"torch\.onnx\.export"):
        model_file(Model.from_torch(object(), ()))


@pytest.mark.parametrize("name", [b"/conv", b"weight", b"x"])
def test_a_name_that_is_no_text(tmp_path: Path, name: bytes) -> None:
    """One turned bit in a name makes it no UTF-8, which protobuf does not refuse: the file is not whole."""
    graph = "(float[n, 2] x) => (float[n, 2] y) <float[2] weight = {1, 2}> { y = Mul (x, weight) }"
    path = parsed(tmp_path / "model.onnx", graph)
    model = onnx.load(path)
    model.graph.node[0].name = "/conv"
    whole = model.SerializeToString()
    assert name in whole
    path.write_bytes(whole.replace(name, b"\xff" + name[1:]))
    with pytest.raises(ModelError, match="not a whole ONNX file"):
        read_graph(path)
