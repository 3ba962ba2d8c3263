"""What TensorRT would compute wrongly is found in the graph, before a build."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import onnx
import onnx.numpy_helper
import onnx.parser
import pytest

from pytest_quant.backends.trt.graph import check_graph
from pytest_quant.errors import BuildError

PAIR = "[round] q = QuantizeLinear(x, s, z) [back] y = DequantizeLinear(q, s, z)"
SYMMETRIC = "float s = {0.1}, int8 z = {0}"
UNSIGNED = "float s = {0.1}, uint8 z = {0}"


def written(folder: Path, nodes: str, constants: str = "") -> Path:
    """Write a model with these nodes between x and y."""
    head = '<ir_version: 9, opset_import: ["" : 19]> g (float[n, 4] x) => (float[n, 4] y)'
    onnx.save_model(onnx.parser.parse_model(f"{head} <{constants}> {{ {nodes} }}"), folder / "model.onnx")
    return folder / "model.onnx"


def test_a_symmetric_pair_is_taken(tmp_path: Path) -> None:
    """int8 around 0 with one constant scale."""
    check_graph(written(tmp_path, PAIR, SYMMETRIC))


@pytest.mark.parametrize(
    ("nodes", "constants"), [(PAIR, UNSIGNED), (PAIR.replace(", z", ""), "float s = {0.1}")], ids=["told", "default"]
)
def test_a_pair_that_is_refused(tmp_path: Path, nodes: str, constants: str) -> None:
    """TensorRT would read uint8 as int8. The node, the cause and what to do stand in the message."""
    with pytest.raises(BuildError, match="uint8") as caught:
        check_graph(written(tmp_path, nodes, constants))
    assert "node 'round' (QuantizeLinear)" in str(caught.value)
    assert caught.value.fix


def test_ranges_that_lie_beside_zero_are_refused(tmp_path: Path) -> None:
    """Whatever stores the zero point, and of every channel; the file is called what the user calls it."""
    beside = "float s = {0.1}, int8 z = {3}"
    channels = "float[4] s = {0.1, 0.1, 0.1, 0.1}, int8[4] z = {0, 0, 0, 1}"
    stored = f"z = Constant<value = int8 {{-128}}>() {PAIR}"
    for nodes, constants in ((PAIR, beside), (PAIR, channels), (stored, "float s = {0.1}")):
        with pytest.raises(BuildError, match=r"zero point is not 0(.|\n)*; 2 nodes") as caught:
            check_graph(written(tmp_path, nodes, constants), "mine.onnx")
        assert caught.value.what == "TensorRT cannot take mine.onnx: node 'round' (QuantizeLinear)"


def test_a_zero_point_in_a_file_beside_the_model_is_read(tmp_path: Path) -> None:
    """Converters may keep even single values outside."""
    for value, is_taken in ((0, True), (5, False)):
        path = written(tmp_path, PAIR, f"float s = {{0.1}}, int8 z = {{{value}}}")
        model = onnx.load(path)
        for tensor in model.graph.initializer:
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
        onnx.save_model(model, path, save_as_external_data=True, location=f"data{value}", size_threshold=0)
        with nullcontext() if is_taken else pytest.raises(BuildError, match="zero point is not 0"):
            check_graph(path)


@pytest.mark.parametrize(
    "op", ["DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul"]
)
def test_operators_of_onnx_runtime(tmp_path: Path, op: str) -> None:
    """Operators on integers and ranges found while running are refused by name, with the way out."""
    with pytest.raises(BuildError, match=f"node 'strange' \\({op}\\)") as caught:
        check_graph(written(tmp_path, f"[strange] y = {op}(x)"))
    assert "scheme='static'" in str(caught.value.fix)


def test_biases_of_onnx_runtimes_quantizer(tmp_path: Path) -> None:
    """They are int32 by default."""
    nodes = "[bias] bias = DequantizeLinear(b, s, z) y = Add(x, bias)"
    with pytest.raises(BuildError, match="int32 bias"):
        check_graph(written(tmp_path, nodes, "int32[4] b = {1, 2, 3, 4}, float s = {0.1}, int32 z = {0}"))


@pytest.mark.parametrize("place", ["z = %s", "stored = %s z = Identity(stored)"])
def test_a_zero_point_is_looked_at_wherever_its_constant_stands(tmp_path: Path, place: str) -> None:
    """In a Constant node, or behind an Identity."""
    check_graph(written(tmp_path, f"{place % 'Constant<value = int8 {0}>()'} {PAIR}", "float s = {0.1}"))
    with pytest.raises(BuildError, match="saturates"):
        check_graph(written(tmp_path, f"{place % 'Constant<value = uint8 {0}>()'} {PAIR}", "float s = {0.1}"))


def test_bodies_are_looked_at_too(tmp_path: Path) -> None:
    """A pair inside an If reads the zero point around it by name, and is refused like any other; more are counted."""
    body = f"() => (float[n, 4] r) {{ {PAIR.replace('y =', 'r =')} }}"
    nodes = f"[choice] y = If(yes)<then_branch = one {body}, else_branch = other {body}>"
    check_graph(written(tmp_path, nodes, f"bool yes = {{1}}, {SYMMETRIC}"))
    with pytest.raises(BuildError, match=r"node 'round'(.|\n)*saturates(.|\n)*; 4 nodes"):
        check_graph(written(tmp_path, nodes, f"bool yes = {{1}}, {UNSIGNED}"))
