"""What goes in and out is read from the graph."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from pytest_quant.backends.onnx_files import read_signature
from pytest_quant.errors import ModelError
from pytest_quant.spec import TensorInfo


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
