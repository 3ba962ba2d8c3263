"""What bodies read from outside, and names that mean one thing."""

from __future__ import annotations

import onnx
from onnx import parser

from pytest_quant.backends.onnx_files.graphs import (
    all_graphs,
    all_nodes,
    captured_names,
    defined_names,
    rename_captured,
    scopes,
)
from pytest_quant.backends.onnx_files.normalize import end_sharing

_HEAD = '<ir_version: 8, opset_import: ["" : 18, "my" : 1]>'
_NESTED = f"""{_HEAD} g (float[n] x, bool on) => (float[n] y) {{
    h = Relu(x)
    y = If(on)<then_branch = a () => (float[n] p) {{
            p = If(on)<then_branch = b () => (float[n] q) {{ q = Neg(h) }},
                       else_branch = c () => (float[n] r) {{ r = Neg(x) }}> }},
        else_branch = d () => (float[n] s) {{ h = Abs(x)\n s = Neg(h) }}>
}}"""


def test_names_are_captured_through_every_level() -> None:
    """A body of a body captures for the outer one; a name that a body defines itself is not captured."""
    outer = parser.parse_model(_NESTED).graph.node[1]
    assert captured_names(outer) == {"on", "h", "x"}
    (otherwise,) = (each.g for each in outer.attribute if each.name == "else_branch")
    assert "h" in defined_names(otherwise)


def test_renaming_stops_where_a_body_has_its_own() -> None:
    """The outer ``h`` gets a name for its readers; the body's own ``h`` keeps its."""
    model = parser.parse_model(_NESTED)
    rename_captured(model.graph.node[1], {"h": "other"})
    reads = {node.output[0]: list(node.input) for node in all_nodes(model)}
    assert reads["q"] == ["other"]
    assert reads["s"] == ["h"]


def test_no_name_means_two_things_afterwards() -> None:
    """The second ``h`` gets a number where it is made and read; a full check, which refused, takes the model."""
    model = parser.parse_model(_NESTED)
    end_sharing(model.graph)
    reads = {node.output[0]: list(node.input) for node in all_nodes(model)}
    assert reads["s"] == ["h_2"]
    assert reads["h_2"] == ["x"]
    onnx.checker.check_model(model, full_check=True)


def test_every_graph_and_node_is_found() -> None:
    """Bodies of bodies, and bodies in functions."""
    text = f"""{_HEAD} g (float[n] x, bool on) => (float[n] y) {{ y = my.f(x, on) }}
    <domain: "my", opset_import: ["" : 18]> f (v, w) => (z) {{
        z = If(w)<then_branch = a () => (p) {{ p = Neg(v) }}, else_branch = b () => (q) {{ q = Abs(v) }}> }}"""
    assert sorted(node.op_type for node in all_nodes(parser.parse_model(text))) == ["Abs", "If", "Neg", "f"]
    assert [graph.name for graph in all_graphs(parser.parse_model(_NESTED).graph)] == ["g", "a", "b", "c", "d"]


def test_constants_reach_into_bodies_but_for_names_that_these_take() -> None:
    """A branch that calls a value of its own ``w`` has no constant of that name; what reads an input is none."""
    text = f"""{_HEAD} g (float[2] x, bool on) => (float[2] y) <float[2] w = {{1, 2}}, bool sure = {{1}}> {{
        half = Neg(w)
        t = If(sure)<then_branch = e () => (float[2] m) {{ m = Neg(x) }}, else_branch = f () => (float[2] k) {{
            k = Abs(x) }}>
        y = If(on)<then_branch = a () => (float[2] p) {{ own = Abs(half)
                p = If(on)<then_branch = b () => (float[2] q) {{ q = Neg(own) }},
                           else_branch = c () => (float[2] r) {{ r = Neg(x) }}> }},
            else_branch = d () => (float[2] s) {{ w = Abs(x) s = Neg(w) }}> }}"""
    found = {graph.name: constants for graph, constants in scopes(parser.parse_model(text).graph)}
    assert found["g"] == {"w", "sure", "half"}
    assert found["a"] == {"w", "sure", "half", "own"}
    assert found["b"] == {"w", "sure", "half", "own", "q"}
    assert found["d"] == {"sure", "half"}
