"""Broken model files are told apart from whole ones; weights beside them and quantized operators are found."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.external_data_helper import set_external_data

from pytest_quant.backends.onnx_files import (
    file_digests,
    find_quantizing_nodes,
    model_file,
    read_graph,
    read_signature,
    read_table_rows,
    size_bytes,
)
from pytest_quant.errors import ModelError
from pytest_quant.spec import TensorInfo
from pytest_quant.testing.conformance.examples import dense
from tests.support.models import parsed


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


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    """They are named, with what a relative path counts from."""
    with pytest.raises(ModelError, match=r"does not exist.*gone\.onnx") as caught:
        read_graph(tmp_path / "gone.onnx")
    assert "relative" in str(caught.value)
    with pytest.raises(ModelError, match="not a file"):
        read_graph(tmp_path)


def test_what_is_no_whole_model(tmp_path: Path) -> None:
    """A model cut off anywhere, an empty file, a Git LFS pointer and zeros; the message has the bytes and Git LFS."""
    path = model_file(dense().write(tmp_path))
    whole = path.read_bytes()
    cut = [whole[: int(share * len(whole))] for share in (0.05, 0.5, 0.99)]
    for content in (*cut, b"", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", b"\x00" * 64):
        path.write_bytes(content)
        with pytest.raises(ModelError, match=f"{len(content)} bytes") as caught:
            read_graph(path)
        assert "git lfs pull" in str(caught.value)


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


def test_other_weights_of_the_same_size(tmp_path: Path) -> None:
    """Weights times 20 under the same name and size have another digest, even with the old time put back."""
    path = model_file(dense().write(tmp_path))
    before, stat = file_digests(path), path.stat()
    assert before == {"": hashlib.sha256(path.read_bytes()).hexdigest()}
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
    result = read_signature(_saved(tmp_path, [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]))
    assert result.inputs == (TensorInfo("x", "float32", expected),)


def test_weights_among_the_inputs_are_left_out(tmp_path: Path) -> None:
    """Old models list weights as inputs too; they are not inputs."""
    path = _saved(tmp_path, [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", "w")])
    model = onnx.load(path)
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0]))
    path.write_bytes(model.SerializeToString())
    assert [tensor.name for tensor in read_signature(path).inputs] == ["x"]


def test_a_list_of_dicts_is_no_tensor(tmp_path: Path) -> None:
    """As a ZipMap of scikit-learn's converter gives it; the option that leaves it out is told."""
    probabilities = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    y = helper.make_value_info("y", helper.make_sequence_type_proto(probabilities))
    with pytest.raises(ModelError, match=r"'y'.*not a tensor") as raised:
        read_signature(_saved(tmp_path, [x], y))
    assert "options={'zipmap': False}" in str(raised.value.fix)


@pytest.mark.parametrize("element", [-1, 99])
def test_a_type_that_onnx_does_not_have(tmp_path: Path, element: int) -> None:
    """It is told by its number."""
    path = _saved(tmp_path, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])])
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.elem_type = element
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"'x' of model\.onnx is not a tensor") as caught:
        read_signature(path)
    assert str(element) in str(caught.value.value)


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


def test_data_beside_the_model_is_measured_and_not_loaded(path: Path) -> None:
    """Its size is that of both files; the graph is read without the bytes of its weights."""
    assert size_bytes(path) == path.stat().st_size + path.with_name("weights.bin").stat().st_size
    assert all(not tensor.raw_data for tensor in read_graph(path).graph.initializer if tensor.external_data)
    assert read_signature(path).inputs[0].shape == (None, 64)


def test_missing_and_truncated_data(path: Path) -> None:
    """The file is named; one shorter than the graph says is told with both sizes."""
    data = path.with_name("weights.bin")
    whole = data.read_bytes()
    data.write_bytes(whole[:100])
    with pytest.raises(ModelError, match=rf"(?s)100 bytes.*{len(whole)}"):
        read_graph(path)
    data.unlink()
    with pytest.raises(ModelError, match=r"missing.*weights\.bin"):
        read_graph(path)
    _point_at(path, "w" * 5000)
    with pytest.raises(ModelError, match="is missing"):
        read_graph(path)


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


QUANTIZED = (
    *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger"),
    *("MatMulInteger", "MatMulInteger16", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"),
    *("QAttention", "QGemm", "QMoE", "QEmbedLayerNormalization", "QLinearAdd", "QLinearGlobalAveragePool"),
    *("QOrderedMatMul", "QuantizeBFP", "DequantizeBFP", "QuantizeWithOrder", "MatMulNBits", "MatMulBnb4", "MatMulFpQ4"),
    *("GatherBlockQuantized", "FakeQuantize", "TRT_FP8QuantizeLinear", "TRT_INT4DequantizeLinear"),
    *("Quant", "IntQuant", "BipolarQuant"),
)
FLOAT = (
    *("MatMul", "Conv", "Gather", "Cast", "BitShift", "Mod", "Round", "Attention", "QuickGelu", "Quantile"),
    *("StringNormalizer", "TfIdfVectorizer", "BlackmanWindow", "IntegerLookup", "RotaryEmbedding"),
)
"""Operators of float models; some are of other tools, and begin or end as those above do."""


def _write(path: Path, nodes: list[onnx.NodeProto], functions: list[onnx.FunctionProto] | None = None) -> Path:
    """Write a model that no runtime would take: only names are read."""
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph(nodes, "net", [], [y])
    onnx.save(helper.make_model(graph, functions=functions or []), path)
    return path


def _node(op_type: str, name: str = "", output: str = "y") -> onnx.NodeProto:
    return helper.make_node(op_type, [], [output], name=name)


def test_each_of_them_is_named(tmp_path: Path) -> None:
    """By operator and name, in the order of the graph."""
    result = find_quantizing_nodes(_write(tmp_path / "m.onnx", [_node(each, f"n_{each}") for each in QUANTIZED]))
    assert result == tuple(f"{each} 'n_{each}'" for each in QUANTIZED)


@pytest.mark.parametrize(("data", "nodes"), [("picture", ()), ("weights", ("DequantizeLinear 'decode'",))])
def test_what_makes_floats_of_an_input_quantizes_nothing(tmp_path: Path, data: str, nodes: tuple[str, ...]) -> None:
    """A picture of uint8 that becomes float is no tensor of a quantized model; weights of uint8 are, input or not."""
    graph = f"""(uint8[4] picture, uint8[4] weights) => (float[4] y) <float scale = {{0.5}}> {{
        [decode] y = DequantizeLinear({data}, scale) }}"""
    path = parsed(tmp_path / "m.onnx", graph, weights=np.array([1, 2, 3, 4], np.uint8))
    assert find_quantizing_nodes(path) == nodes


def test_no_operator_of_a_float_model_is(tmp_path: Path) -> None:
    """Whatever it does with whole numbers, and whatever words are in its name."""
    assert find_quantizing_nodes(_write(tmp_path / "m.onnx", [_node(each) for each in FLOAT])) == ()


def test_they_are_found_in_bodies_and_functions(tmp_path: Path) -> None:
    """A node without a name has that of its output."""
    body = helper.make_graph([_node("QGemm", "", "inner")], "body", [], [])
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("own", "twice", [], ["z"], [_node("MatMulInteger", "in_function", "z")], opsets)
    choice = helper.make_node("If", [], ["y"], name="choice", then_branch=body, else_branch=body)
    nodes = [choice, _node("twice", "call")]
    result = find_quantizing_nodes(_write(tmp_path / "m.onnx", nodes, [function]))
    assert result == ("QGemm 'inner'", "QGemm 'inner'", "MatMulInteger 'in_function'")


def test_a_file_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    """What is remembered of a file is that of its present state."""
    path = _write(tmp_path / "m.onnx", [_node("MatMul")])
    assert find_quantizing_nodes(path) == ()
    assert find_quantizing_nodes(_write(path, [_node("QLinearMatMul", "q")])) == ("QLinearMatMul 'q'",)
