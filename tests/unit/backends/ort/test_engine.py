"""Coverage counts what ran, by compute where it is known; layers have the times of their nodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx.parser
import pytest

from pytest_quant.backends.ort.engine import count_coverage, layers_of, read_runs
from pytest_quant.backends.ort.macs import (
    CONVERSIONS,
    INT8_OPS,
    NARROW_OPS,
    RanNode,
    names_in_profile,
    nodes_in,
)
from tests.recorded_isa import RECORDED

CPU = "CPUExecutionProvider"


def _events(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def product(op_type: str, k: int, name: str = "", dtype: str = "float", provider: str = CPU) -> RanNode:
    """A (1, k) x (k, 1) product: k multiply-accumulates."""
    return RanNode(name or op_type, op_type, provider, ((dtype, (1, k)),), (("float", (1, 1)),))


def test_share_of_macs() -> None:
    """900 of 1000 multiply-accumulates in int8 are 90 %, although it is one node of two."""
    result = count_coverage([product("MatMulInteger", 900), product("MatMul", 100, "slow")], "int8")
    assert result.pct == pytest.approx(90.0)
    assert result.unit == "MACs"
    assert result.float_nodes == ("slow",)


@pytest.mark.parametrize(("precision", "pct"), [("fp32", 100.0 / 3), ("int8", 100.0 / 3), ("int4", 100.0 / 3)])
def test_each_precision_has_its_operators(precision: str, pct: float) -> None:
    """A float, an int8 and an int4 product count for their own precision only."""
    nodes = [product("MatMul", 8), product("QLinearMatMul", 8, dtype="uint8"), product("MatMulNBits", 8)]
    assert count_coverage(nodes, precision).pct == pytest.approx(pct)


@pytest.mark.parametrize(
    ("dtype", "precision"), [("float", "fp32"), ("double", "fp32"), ("float16", "fp16"), ("bfloat16", "bf16")]
)
@pytest.mark.parametrize("engine_precision", ["fp32", "fp16", "bf16", "int8"])
def test_a_product_of_floats_counts_for_its_own_type(dtype: str, precision: str, engine_precision: str) -> None:
    """On a GPU half precision is computed as it is: it is no float32, and no int8."""
    result = count_coverage([product("MatMul", 8, dtype=dtype, provider="CUDAExecutionProvider")], engine_precision)
    assert result.pct == (100.0 if engine_precision == precision else 0.0)


@pytest.mark.parametrize(("precision", "pct"), [("int4", 50.0), ("fp16", 50.0), ("int8", None)])
def test_products_of_bytes_are_told_whatever_is_asked(precision: str, pct: float | None) -> None:
    """One of two equal products multiplies bytes."""
    nodes = [product("QLinearMatMul", 8, dtype="uint8"), product("MatMul", 8)]
    assert count_coverage(nodes, precision).int8_pct == pct


def test_opaque_nodes_are_apart() -> None:
    """A node whose inside cannot be seen is no more quantized than float: one of three at least, and all at most."""
    nodes = [product("MatMulInteger", 5), product("BeamSearch", 5), product("OpenVINOExecutionProvider_graph_1", 5)]
    result = count_coverage(nodes, "int8")
    assert result.pct == pytest.approx(100 / 3)
    assert (result.high_pct, result.unit, result.opaque_nodes) == (100.0, "nodes", 2)


def test_integer_product_of_a_float_model_is_not_compute_to_quantize() -> None:
    """A MatMul of int64 shapes is not eligible."""
    assert count_coverage([product("MatMul", 5, dtype="int64")], "int8").pct is None


def test_a_fused_product_has_the_name_in_the_model() -> None:
    """ONNX Runtime calls a Gemm that took in a Relu ``fused fc``; `exclude` knows ``fc``."""
    assert count_coverage([product("FusedGemm", 8, "fused fc")], "int8").float_nodes == ("fc",)


CONV, DENSE = 8 * 36 * 9, 288 * 10
SHARES = {
    "conv_fp32_None": 100.0,
    "conv_int8_static": 100.0,
    "conv_int8_dynamic": 100.0 * DENSE / (CONV + DENSE),
    "conv_int4_weight-only": 100.0 * DENSE / (CONV + DENSE),
    "dense_fp32_None": 100.0,
    "dense_int8_static": 100.0,
    "dense_int8_dynamic": 100.0,
    "dense_int4_weight-only": 100.0,
}
"""From the shapes of the examples: dynamic and weight-only schemes leave the convolution in float."""


@pytest.mark.parametrize("name", SHARES)
def test_shares_are_those_of_the_source(name: str) -> None:
    """Eight channels count as eight, whatever the width of a vector."""
    nodes = nodes_in(_events(RECORDED / "amx_int8" / f"ort_{name}.profile.json"))
    result = count_coverage(nodes, name.split("_")[1])
    assert (result.unit, result.opaque_nodes) == ("MACs", 0)
    assert result.pct == pytest.approx(SHARES[name])


@pytest.mark.parametrize("name", [name for name in SHARES if name.startswith("conv")])
def test_the_layout_that_is_not_read_back_changes_no_precision(name: str) -> None:
    """A user's session blocks float convolutions; integer kernels and conversions are those of the one read back."""

    def integers(file: Path) -> list[tuple[str, str]]:
        kinds = INT8_OPS | NARROW_OPS | CONVERSIONS
        return sorted((node.name, node.op_type) for node in nodes_in(_events(file)) if node.op_type in kinds)

    as_run = RECORDED / "avx512_vnni" / f"ort_{name}.as_run.json"
    assert integers(as_run) == integers(RECORDED / "amx_int8" / f"ort_{name}.profile.json")
    padded = [node for node in nodes_in(_events(as_run)) if node.name == "r_nchwc"]
    assert [node.outputs[0][1] for node in padded] == ([] if "static" in name else [(1, 16, 6, 6)])


def _node(name: str, op: str, start: int, spent: int, dtype: str = "float") -> dict[str, Any]:
    facts = {"op_name": op, "input_type_shape": [{dtype: [1, 4]}], "provider": "CPUExecutionProvider"}
    return {"cat": "Node", "name": f"{name}_kernel_time", "ts": start, "dur": spent, "args": facts}


def _profile(*runs: Sequence[dict[str, Any]]) -> str:
    """Return a profile as ONNX Runtime writes it: the run comes after its nodes."""
    events: list[dict[str, Any]] = [{"cat": "Session", "name": "model_loading_uri", "ts": 0, "dur": 5, "args": {}}]
    for nodes in runs:
        start, end = nodes[0]["ts"], max(node["ts"] + node["dur"] for node in nodes)
        events += [*nodes, {"cat": "Session", "name": "model_run", "ts": start, "dur": end - start, "args": {}}]
    return json.dumps(events)


def test_the_median_over_runs_in_milliseconds() -> None:
    """Of 2, 3 and 100 microseconds it is 3; the order is that of the run."""
    runs = [[_node("b", "Relu", 100 * n, 1), _node("a", "Conv", 100 * n + 2, us)] for n, us in enumerate((2, 100, 3))]
    result = layers_of(read_runs(_profile(*runs)), {"a": (("conv", "relu"), "compute")})
    assert [(layer.name, layer.op, layer.ms) for layer in result] == [("b", "Relu", 0.001), ("a", "Conv", 0.003)]
    assert result[1].nodes == ("conv", "relu")
    assert (result[0].nodes, result[0].role) == ((), "other")


def test_a_node_that_runs_twice_counts_twice() -> None:
    """Two nodes of one name are one layer, whose time is the sum in each run."""
    runs = [[_node("a", "Conv", 10, 4), _node("a", "Conv", 20, 5)]]
    (layer,) = layers_of(read_runs(_profile(*runs)), {})
    assert layer.ms == pytest.approx(0.009)


def test_the_body_of_a_loop_is_in_the_time_of_the_loop() -> None:
    """Else its nodes would be counted twice."""
    run = [_node("first", "Relu", 0, 5), _node("turn", "Add", 12, 3), _node("turn", "Add", 16, 3),
           _node("loop", "Loop", 10, 20), _node("last", "Relu", 40, 5)]  # fmt: skip
    assert [event.name for event in read_runs(_profile(run))[0]] == ["first", "loop", "last"]


@pytest.mark.parametrize(
    ("op", "dtype", "precision"),
    [
        ("Conv", "float", "fp32"),
        ("Conv", "float16", "fp16"),
        ("QLinearConv", "uint8", "int8"),
        ("DynamicQuantizeMatMul", "float", "int8"),
        ("MatMulNBits", "float", "int4"),
        ("NhwcMaxPool", "uint8", "int8"),
        ("Shape", "int64", "int64"),
    ],
)
def test_precision_is_what_a_product_multiplies_in(op: str, dtype: str, precision: str) -> None:
    """That of the operator where it says so, else the type of the first operand."""
    (layer,) = layers_of([[RanNode("n", op, "", ((dtype, ()),), ())]], {})
    assert layer.precision == precision


def test_nodes_without_names_are_told_apart_by_their_order() -> None:
    """The profiler numbers them; where their count differs, the body of a branch for one, none is guessed."""
    graph = onnx.parser.parse_graph("g (float[4] x) => (float[4] y) { a = Relu(x) b = Neg(a) y = Relu(b) }")
    graph.node[1].name = "minus"
    run = [RanNode("Relu_7", "Relu", "", (), ()), RanNode("minus", "Neg", "", (), ())]
    assert names_in_profile(graph.node, [*run, RanNode("Relu_2", "Relu", "", (), ())]) == ["Relu_7", "minus", "Relu_2"]
    assert names_in_profile(graph.node, run) == ["", "minus", ""]
