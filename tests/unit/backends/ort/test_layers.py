"""The time of a layer is the median over runs of what the profiler counted, on the kernels of a timed session."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import onnx.parser
import pytest

from pytest_quant.backends.ort.layers import layers_of, names_in_profile, read_runs
from pytest_quant.backends.ort.macs import Operand, RanNode


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
    found = layers_of(read_runs(_profile(*runs)), {"a": (("conv", "relu"), "compute")})
    assert [(layer.name, layer.op, layer.ms) for layer in found] == [("b", "Relu", 0.001), ("a", "Conv", 0.003)]
    assert found[1].nodes == ("conv", "relu")
    assert (found[0].nodes, found[0].role) == ((), "other")


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
    (layer,) = layers_of([[RanNode("n", op, "", (Operand(dtype, ()),), ())]], {})
    assert layer.precision == precision


def test_nodes_without_names_are_told_apart_by_their_order() -> None:
    """The profiler numbers them; where their count differs, the body of a branch for one, none is guessed."""
    graph = onnx.parser.parse_graph("g (float[4] x) => (float[4] y) { a = Relu(x) b = Neg(a) y = Relu(b) }")
    graph.node[1].name = "minus"
    run = [RanNode("Relu_7", "Relu", "", (), ()), RanNode("minus", "Neg", "", (), ())]
    assert names_in_profile(graph, [*run, RanNode("Relu_2", "Relu", "", (), ())]) == ["Relu_7", "minus", "Relu_2"]
    assert names_in_profile(graph, run) == ["", "minus", ""]
