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
    check_graph(written(tmp_path, PAIR, SYMMETRIC), target="SM75")


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


def test_an_int32_bias(tmp_path: Path) -> None:
    """ONNX Runtime's quantizer writes one by default."""
    nodes = "[bias] bias = DequantizeLinear(b, s, z) y = Add(x, bias)"
    with pytest.raises(BuildError, match="int32 bias"):
        check_graph(written(tmp_path, nodes, "int32[4] b = {1, 2, 3, 4}, float s = {0.1}, int32 z = {0}"))


def test_scales_per_channel_of_a_weight_are_taken(tmp_path: Path) -> None:
    """They belong to a constant, which is what they are for."""
    weight = (
        f"int8[4, 4] w = {{{', '.join('1' * 16)}}}, float[4] s = {{0.1, 0.1, 0.1, 0.1}}, int8[4] z = {{0, 0, 0, 0}}"
    )
    nodes = "weights = DequantizeLinear<axis = 1>(w, s, z) y = MatMul(x, weights)"
    check_graph(written(tmp_path, nodes, weight))


def test_a_calibrator_beside_pairs(tmp_path: Path) -> None:
    """It would be ignored without a word."""
    with pytest.raises(BuildError, match="it would be ignored"):
        check_graph(written(tmp_path, PAIR, SYMMETRIC), calibrator=True)


@pytest.mark.parametrize(("target", "refused"), [("SM86", True), ("SM89", False), ("", False)])
def test_fp8_on_a_gpu_without_it(tmp_path: Path, target: str, refused: bool) -> None:
    """Ampere has none, Ada has; where the target is not known the builder decides."""
    path = written(tmp_path, PAIR, "float s = {0.1}, float8e4m3fn z = {0}")
    if refused:
        with pytest.raises(BuildError, match="FP8 needs a GPU"):
            check_graph(path, target=target)
    else:
        check_graph(path, target=target)


def test_several_faults_are_counted(tmp_path: Path) -> None:
    """The first is named, the others are not forgotten."""
    with pytest.raises(BuildError, match=r"and 1 more"):
        check_graph(written(tmp_path, PAIR, UNSIGNED))


HALVES = {0.1: 11878, 0.0: 0}
"""Bits of a number as float16."""


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ("s = Constant<value = float {%s}>()", ""),
        ("s = Constant<value_float = %s>()", ""),
        ("s = Identity(stored)", "float stored = {%s}"),
        ("handed = Identity(s16) s = Cast<to = 1>(handed)", "float16 s16 = {%s}"),
    ],
)
def test_a_scale_is_looked_at_wherever_its_constant_stands(tmp_path: Path, nodes: str, constants: str) -> None:
    """In a Constant node of any kind, behind an Identity, or behind a cast as exports to float16 have it."""

    def scaled(scale: float) -> Path:
        number = str(HALVES[scale] if "float16" in constants else scale)
        own = ", ".join(filter(None, (constants.replace("%s", number), "int8 z = {0}")))
        return written(tmp_path, f"{nodes.replace('%s', number)} {PAIR}", own)

    check_graph(scaled(0.1))
    with pytest.raises(BuildError, match="not above 0"):
        check_graph(scaled(0.0))


def test_a_scale_that_is_computed_of_constants_is_one(tmp_path: Path) -> None:
    """The parser folds it, whatever computes it."""
    check_graph(written(tmp_path, f"t = Mul(c, c) s = Sqrt(t) {PAIR}", "float c = {0.1}, int8 z = {0}"))


def test_a_scale_that_is_computed_in_a_run_is_refused(tmp_path: Path) -> None:
    """Of an input, with constants among what computes it."""
    nodes = f"most = ReduceMax<keepdims = 0>(x) s = Mul(most, c) {PAIR}"
    with pytest.raises(BuildError, match="computed, and must be a constant"):
        check_graph(written(tmp_path, nodes, "float c = {0.1}, int8 z = {0}"))


@pytest.mark.parametrize(("constants", "fault"), [(SYMMETRIC, ""), (UNSIGNED, "saturates")])
def test_bodies_are_looked_at_too(tmp_path: Path, constants: str, fault: str) -> None:
    """A pair inside an If reads the scale around it by name, and has faults like any other."""
    body = f"() => (float[n, 4] r) {{ {PAIR.replace('y =', 'r =')} }}"
    nodes = f"[choice] y = If(yes)<then_branch = one {body}, else_branch = other {body}>"
    path = written(tmp_path, nodes, f"bool yes = {{1}}, {constants}")
    if not fault:
        check_graph(path)
        return
    with pytest.raises(BuildError, match="node 'round'") as caught:
        check_graph(path)
    assert fault in str(caught.value)
