"""What TensorRT cannot take is found in the graph, before a build."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest

from pytest_quant.backends.trt.graph import check_graph
from pytest_quant.errors import BuildError

PAIR = "[round] q = QuantizeLinear(x, s, z) [back] y = DequantizeLinear(q, s, z)"
BY_CHANNEL = "[round] q = QuantizeLinear<axis = 1>(x, s, z) [back] y = DequantizeLinear<axis = 1>(q, s, z)"
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
    ("nodes", "constants", "cause"),
    [
        (PAIR, UNSIGNED, "uint8"),
        (PAIR.replace(", z", ""), "float s = {0.1}", "uint8"),
        (PAIR, "float s = {0.1}, int8 z = {3}", "not 0"),
        (PAIR, "float s = {0.0}, int8 z = {0}", "not above 0"),
        (
            BY_CHANNEL,
            "float[4] s = {0.1, 0.1, 0.1, 0.1}, int8[4] z = {0, 0, 0, 0}",
            "one scale for each channel of an activation",
        ),
    ],
)
def test_a_pair_that_is_refused(tmp_path: Path, nodes: str, constants: str, cause: str) -> None:
    """The node, the cause and what to do stand in the message."""
    with pytest.raises(BuildError, match=cause) as caught:
        check_graph(written(tmp_path, nodes, constants))
    assert "node 'round' (QuantizeLinear)" in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize(
    "op", ["DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul"]
)
def test_operators_of_onnx_runtime(tmp_path: Path, op: str) -> None:
    """Operators on integers and ranges found while running are refused by name, with the way out."""
    with pytest.raises(BuildError, match=f"node 'strange' \\({op}\\)") as caught:
        check_graph(written(tmp_path, f"[strange] y = {op}(x)"))
    assert "scheme='static'" in str(caught.value.fix)


def test_what_cannot_be_beside(tmp_path: Path) -> None:
    """An int32 bias, which ONNX Runtime's quantizer writes by default; a calibrator, which would be ignored."""
    nodes = "[bias] bias = DequantizeLinear(b, s, z) y = Add(x, bias)"
    with pytest.raises(BuildError, match="int32 bias"):
        check_graph(written(tmp_path, nodes, "int32[4] b = {1, 2, 3, 4}, float s = {0.1}, int32 z = {0}"))
    with pytest.raises(BuildError, match="it would be ignored"):
        check_graph(written(tmp_path, PAIR, SYMMETRIC), calibrator=True)


def test_scales_per_channel_of_a_weight_are_taken(tmp_path: Path) -> None:
    """They belong to a constant, which is what they are for."""
    weight = (
        f"int8[4, 4] w = {{{', '.join('1' * 16)}}}, float[4] s = {{0.1, 0.1, 0.1, 0.1}}, int8[4] z = {{0, 0, 0, 0}}"
    )
    nodes = "weights = DequantizeLinear<axis = 1>(w, s, z) y = MatMul(x, weights)"
    check_graph(written(tmp_path, nodes, weight))


@pytest.mark.parametrize(
    "scale", ["s = Constant<value = float {%s}>()", "stored = Constant<value_float = %s>() s = Identity(stored)"]
)
def test_a_scale_is_looked_at_wherever_its_constant_stands(tmp_path: Path, scale: str) -> None:
    """In a Constant node of any kind, or behind an Identity."""
    check_graph(written(tmp_path, f"{scale % 0.1} {PAIR}", "int8 z = {0}"))
    with pytest.raises(BuildError, match="not above 0"):
        check_graph(written(tmp_path, f"{scale % 0.0} {PAIR}", "int8 z = {0}"))


def test_a_scale_that_is_computed_of_constants_is_one(tmp_path: Path) -> None:
    """The parser folds it, whatever computes it; casts of float16 among that."""
    check_graph(written(tmp_path, f"t = Mul(c, c) s = Sqrt(t) {PAIR}", "float c = {0.1}, int8 z = {0}"))


def test_a_scale_that_is_computed_in_a_run_is_refused(tmp_path: Path) -> None:
    """Of an input, with constants among what computes it."""
    nodes = f"most = ReduceMax<keepdims = 0>(x) s = Mul(most, c) {PAIR}"
    with pytest.raises(BuildError, match="computed, and must be a constant"):
        check_graph(written(tmp_path, nodes, "float c = {0.1}, int8 z = {0}"))


def test_bodies_are_looked_at_too(tmp_path: Path) -> None:
    """A pair inside an If reads the scale around it by name, and has faults like any other; the rest are counted."""
    body = f"() => (float[n, 4] r) {{ {PAIR.replace('y =', 'r =')} }}"
    nodes = f"[choice] y = If(yes)<then_branch = one {body}, else_branch = other {body}>"
    check_graph(written(tmp_path, nodes, f"bool yes = {{1}}, {SYMMETRIC}"))
    with pytest.raises(BuildError, match=r"node 'round'(.|\n)*saturates(.|\n)*and 3 more"):
        check_graph(written(tmp_path, nodes, f"bool yes = {{1}}, {UNSIGNED}"))
