"""External data is found, measured, and kept inside the model's folder."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx.external_data_helper import set_external_data

from pytest_quant.backends.onnx_files import file_digests, read_graph, read_signature, size_bytes
from pytest_quant.errors import ModelError
from pytest_quant.testing.conformance.examples import dense


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model whose large weights lie in ``weights.bin`` beside it."""
    file = tmp_path / "model.onnx"
    onnx.save_model(
        dense().proto,
        file,
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=64,
        convert_attribute=True,
    )
    return file


def _point_at(path: Path, location: str) -> None:
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        if tensor.external_data:
            tensor.raw_data = b"\0"
            set_external_data(tensor, location, offset=0, length=16)
            tensor.ClearField("raw_data")
    onnx.save_model(model, path)


def test_size_is_of_both_files(path: Path) -> None:
    """The size of a model is that of its file and its data."""
    assert size_bytes(path) == path.stat().st_size + path.with_name("weights.bin").stat().st_size


def test_weights_are_not_loaded(path: Path) -> None:
    """The graph is read without the bytes of its weights."""
    assert all(not tensor.raw_data for tensor in read_graph(path).graph.initializer if tensor.external_data)
    assert read_signature(path).inputs[0].shape == (None, 64)


def test_missing_data(path: Path) -> None:
    """A missing data file is named."""
    path.with_name("weights.bin").unlink()
    with pytest.raises(ModelError, match=r"missing.*weights\.bin"):
        read_graph(path)


def test_truncated_data(path: Path) -> None:
    """A data file shorter than the graph says is told, with both sizes."""
    data = path.with_name("weights.bin")
    whole = data.stat().st_size
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(ModelError, match="100 bytes") as caught:
        read_graph(path)
    assert str(whole) in str(caught.value)


@pytest.mark.parametrize(
    "location", ["../weights.bin", "a/../../weights.bin", "/etc/passwd", "C:\\weights.bin", "..\\w"]
)
def test_data_outside_the_folder(path: Path, location: str) -> None:
    """Data outside the model's folder is refused even when the file exists."""
    (path.parent.parent / "weights.bin").write_bytes(b"\0" * 10_000)
    _point_at(path, location)
    with pytest.raises(ModelError, match="outside the model's folder"):
        read_graph(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("offset", "-100"),
        ("length", "-5"),
        ("offset", "much"),
        ("length", "\N{SUPERSCRIPT TWO}"),
        ("offset", "9" * 5000),
        ("location", ""),
        ("location", "weights\0.bin"),
    ],
)
def test_a_damaged_entry_is_named(path: Path, key: str, value: str) -> None:
    """Whatever stands in the place of a location, an offset or a length."""
    model = onnx.load(path, load_external_data=False)
    (tensor, *_) = [tensor for tensor in model.graph.initializer if tensor.external_data]
    (entry,) = [entry for entry in tensor.external_data if entry.key == key]
    entry.value = value
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=f"the entry of '{tensor.name}' is damaged"):
        read_graph(path)


def test_a_name_that_no_file_can_have(path: Path) -> None:
    """It is missing, however long."""
    _point_at(path, "w" * 5000)
    with pytest.raises(ModelError, match="is missing"):
        read_graph(path)


def test_data_in_a_folder_below(path: Path) -> None:
    """Data in a folder below the model's is fine."""
    (path.parent / "data").mkdir()
    path.with_name("weights.bin").rename(path.parent / "data" / "weights.bin")
    _point_at(path, "data/weights.bin")
    assert set(file_digests(path)) == {"", "data/weights.bin"}


def test_tensors_inside_nodes_count(tmp_path: Path) -> None:
    """External data of a tensor in a Constant node is looked for too."""
    tensor = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(dense().proto.graph.initializer[0]), "c")
    set_external_data(tensor, "nowhere.bin", offset=0, length=16)
    tensor.ClearField("raw_data")
    model = dense().proto
    model.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["c"], value=tensor))
    file = tmp_path / "model.onnx"
    file.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"nowhere\.bin"):
        read_graph(file)
