"""Broken model files are told apart from whole ones."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from pytest_quant.backends.onnx_files import file_digests, model_file, read_graph, read_signature, read_table_rows
from pytest_quant.errors import ModelError, UsageError
from pytest_quant.spec import Model, TensorInfo
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


def test_digest_is_sha256(tmp_path: Path) -> None:
    """The digest is SHA-256 of the bytes."""
    path = model_file(dense().write(tmp_path))
    assert file_digests(path) == {"": hashlib.sha256(path.read_bytes()).hexdigest()}


def test_other_weights_of_the_same_size(tmp_path: Path) -> None:
    """Weights times 20 under the same name and size have another digest, even with the old time put back."""
    path = model_file(dense().write(tmp_path))
    before, stat = file_digests(path), path.stat()
    dense(scale=20.0).write(tmp_path)
    assert path.stat().st_size == stat.st_size
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert file_digests(path) != before


def test_external_data_counts(tmp_path: Path) -> None:
    """A change in the data file alone changes its digest and not the model's."""
    path = tmp_path / "model.onnx"
    onnx.save_model(dense().proto, path, save_as_external_data=True, location="w.bin", size_threshold=64)
    before = file_digests(path)
    data = path.with_name("w.bin")
    content = bytearray(data.read_bytes())
    content[-1] ^= 1
    data.write_bytes(content)
    after = file_digests(path)
    assert before[""] == after[""]
    assert before["w.bin"] != after["w.bin"]


def test_copy_has_the_same_digest(tmp_path: Path) -> None:
    """The digest does not depend on where the file lies."""
    path = model_file(dense().write(tmp_path))
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(path.read_bytes())
    assert file_digests(copy) == file_digests(path)


def test_a_table_is_found_behind_casts_and_reshapes(tmp_path: Path) -> None:
    """The axis that is indexed counts, the smaller of two tables, and constants of nodes as well as initializers."""
    graph = """(int32[n, t] ids, int64[n, t] types, int64[n, t] mask) => (float[a, b] y, float[c, d] z, float[e, f] m)
    <float[7, 4] words = {0,0,0,0, 0,0,0,0, 0,0,0,0, 0,0,0,0, 0,0,0,0, 0,0,0,0, 0,0,0,0}>
    {
      wide = Cast <to = 7> (ids)
      flat = Flatten (wide)
      y = Gather (words, flat)
      kinds = Constant <value = float[2, 3] {0, 0, 0, 0, 0, 0}> ()
      both = Concat <axis = 0> (wide, types)
      z = Gather <axis = 1> (kinds, both)
      m = Cast <to = 1> (mask)
    }"""
    assert read_table_rows(parsed(tmp_path / "m.onnx", graph)) == {"ids": 3, "types": 3}


def test_a_table_is_found_in_a_subgraph(tmp_path: Path) -> None:
    """A branch that reads the input by its name indexes it as well."""
    graph = """(bool flag, int64[n] ids) => (float[n, 2] y)
    <float[3, 2] words = {0, 0, 0, 0, 0, 0}>
    {
      y = If (flag) <
        then_branch = one () => (float[n, 2] p) { p = Gather (words, ids) },
        else_branch = two () => (float[n, 2] q) { q = Gather (words, ids) }
      >
    }"""
    assert read_table_rows(parsed(tmp_path / "m.onnx", graph)) == {"ids": 3}


def test_a_computed_index_is_not_followed(tmp_path: Path) -> None:
    """Which values are valid before an addition is not known."""
    graph = """(int64[n] ids) => (float[n, 2] y) <float[3, 2] words = {0, 0, 0, 0, 0, 0}, int64 one = {1}>
    { next = Add (ids, one) y = Gather (words, next) }"""
    assert read_table_rows(parsed(tmp_path / "m.onnx", graph)) == {}


def test_nodes_that_lack_inputs_or_outputs_index_nothing(tmp_path: Path) -> None:
    """Runtimes refuse them later, each in its own words; so too an axis that the table does not have."""
    graph = """(int64[n] ids) => (float[n, 2] y) <float[3, 2] words = {0, 0, 0, 0, 0, 0}>
    { flat = Cast <to = 7> (ids) kinds = Constant <value = float[1] {0}> () y = Gather <axis = 1> (words, flat) }"""
    path = parsed(tmp_path / "m.onnx", graph)
    model = onnx.load(path)
    cast, constant, gather = model.graph.node
    gather.attribute[0].i = 2
    del cast.output[:], constant.output[:]
    model.graph.node.add(op_type="Gather", input=["words"], output=["z"])
    model.graph.node.add(op_type="Concat")
    path.write_bytes(model.SerializeToString())
    assert read_table_rows(path) == {}


def _saved(folder: Path, inputs: list[onnx.ValueInfoProto], output: onnx.ValueInfoProto | None = None) -> Path:
    result = output or helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    node = helper.make_node("Identity", [inputs[0].name], ["y"])
    graph = helper.make_graph([node], "g", inputs, [result])
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return path


@pytest.mark.parametrize(
    ("shape", "expected"), [(["n", 3], (None, 3)), ([None, 2], (None, 2)), ([-1, 5], (None, 5)), ([], ()), (None, None)]
)
def test_sizes(tmp_path: Path, shape: list[int | str | None] | None, expected: tuple[int | None, ...] | None) -> None:
    """Symbolic, unknown and negative sizes are free; a scalar has no axis; an unknown rank is ``None``."""
    found = read_signature(_saved(tmp_path, [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]))
    assert found.inputs == (TensorInfo("x", "float32", expected),)


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        (TensorProto.INT64, "int64"),
        (TensorProto.UINT8, "uint8"),
        (TensorProto.BOOL, "bool"),
        (TensorProto.STRING, "object"),
        (TensorProto.FLOAT16, "float16"),
        (TensorProto.DOUBLE, "float64"),
    ],
)
def test_dtypes(tmp_path: Path, element: int, dtype: str) -> None:
    """Element types carry numpy's names."""
    found = read_signature(_saved(tmp_path, [helper.make_tensor_value_info("x", element, ["n"])]))
    assert found.inputs[0].dtype == dtype


def test_weights_among_the_inputs_are_left_out(tmp_path: Path) -> None:
    """Old models list weights as inputs too; they are not inputs."""
    path = _saved(tmp_path, [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", "w")])
    model = onnx.load(path)
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0]))
    path.write_bytes(model.SerializeToString())
    assert [tensor.name for tensor in read_signature(path).inputs] == ["x"]


def test_sequence_output(tmp_path: Path) -> None:
    """An output that is not a tensor is named, with the way out."""
    output = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, ["n"])
    with pytest.raises(ModelError, match=r"'y'.*not a tensor"):
        read_signature(_saved(tmp_path, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])], output))


@pytest.mark.parametrize("network", [False, True])
def test_trees_that_give_a_list_of_dicts_are_no_network(network: bool, tmp_path: Path) -> None:
    """What keeps them from being read is told together with the next error: there is nothing to quantize."""
    probabilities = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    nodes = [
        *([helper.make_node("MatMul", ["x", "w"], ["x2"], name="product")] if network else []),
        helper.make_node("TreeEnsembleClassifier", ["x"], ["label", "p"], name="trees", domain="ai.onnx.ml"),
        helper.make_node("ZipMap", ["p"], ["y"], name="zip", domain="ai.onnx.ml", classlabels_int64s=[0, 1]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    y = helper.make_value_info("y", helper.make_sequence_type_proto(probabilities))
    onnx.save(helper.make_model(helper.make_graph(nodes, "net", [x], [y])), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=r"'y'.*not a tensor") as raised:
        read_signature(tmp_path / "m.onnx")
    assert "options={'zipmap': False}" in str(raised.value.fix)
    assert ("TreeEnsembleClassifier, ZipMap are no neural network" in str(raised.value.fix)) is not network


@pytest.mark.parametrize("element", [-1, 99])
def test_a_type_that_onnx_does_not_have(tmp_path: Path, element: int) -> None:
    """It is told by its number."""
    path = _saved(tmp_path, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])])
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.elem_type = element
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"'x' of model\.onnx is of a type") as caught:
        read_signature(path)
    assert caught.value.value == f"element type {element}"
