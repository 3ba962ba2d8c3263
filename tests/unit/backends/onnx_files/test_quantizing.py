"""Operators that only a quantized model has are found by name wherever the file holds them."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from pytest_quant.backends.onnx_files import quantizing_nodes
from pytest_quant.errors import ModelError

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
    found = quantizing_nodes(_write(tmp_path / "m.onnx", [_node(one, f"n_{one}") for one in QUANTIZED]))
    assert found == tuple(f"{one} 'n_{one}'" for one in QUANTIZED)


@pytest.mark.parametrize(("data", "found"), [("picture", ()), ("weights", ("DequantizeLinear 'decode'",))])
def test_what_makes_floats_of_an_input_quantizes_nothing(tmp_path: Path, data: str, found: tuple[str, ...]) -> None:
    """A picture of uint8 that becomes float is no tensor of a quantized model; weights of uint8 are, input or not."""
    picture = helper.make_tensor_value_info("picture", TensorProto.UINT8, [4])
    weights = helper.make_tensor_value_info("weights", TensorProto.UINT8, [4])
    nodes = [helper.make_node("DequantizeLinear", [data, "scale"], ["y"], name="decode")]
    graph = helper.make_graph(
        nodes, "net", [picture, weights], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [helper.make_tensor("weights", TensorProto.UINT8, [4], [1, 2, 3, 4])],
    )  # fmt: skip
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    assert quantizing_nodes(tmp_path / "m.onnx") == found


def test_no_operator_of_a_float_model_is(tmp_path: Path) -> None:
    """Whatever it does with whole numbers."""
    assert quantizing_nodes(_write(tmp_path / "m.onnx", [_node(one) for one in FLOAT])) == ()


def test_they_are_found_in_bodies_and_functions(tmp_path: Path) -> None:
    """A node without a name has that of its output."""
    body = helper.make_graph([_node("QGemm", "", "inner")], "body", [], [])
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("own", "twice", [], ["z"], [_node("MatMulInteger", "in_function", "z")], opsets)
    choice = helper.make_node("If", [], ["y"], name="choice", then_branch=body, else_branch=body)
    nodes = [choice, _node("twice", "call")]
    found = quantizing_nodes(_write(tmp_path / "m.onnx", nodes, [function]))
    assert found == ("QGemm 'inner'", "QGemm 'inner'", "MatMulInteger 'in_function'")


def test_a_file_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    """What is remembered of a file is that of its present state."""
    path = _write(tmp_path / "m.onnx", [_node("MatMul")])
    assert quantizing_nodes(path) == ()
    assert quantizing_nodes(_write(path, [_node("QLinearMatMul", "q")])) == ("QLinearMatMul 'q'",)


def test_a_file_that_is_no_onnx_is_an_error(tmp_path: Path) -> None:
    """As everywhere."""
    (tmp_path / "m.onnx").write_bytes(b"not a model")
    with pytest.raises(ModelError, match="not a whole ONNX file"):
        quantizing_nodes(tmp_path / "m.onnx")
