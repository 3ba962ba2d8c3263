"""What a few bytes become when a runtime opens them: inlined functions and folded constants are counted, not made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, inliner, numpy_helper

from pytest_quant.backends.onnx_files import read_graph
from pytest_quant.backends.onnx_files.graphs import all_nodes, opened_size
from pytest_quant.errors import ModelFileError

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]


def function(name: str, called: list[str], opsets: list[onnx.OperatorSetIdProto] = OPSETS) -> onnx.FunctionProto:
    """A function of one input that calls others, or Relu, one after the other."""
    values = ["x", *(f"v{place}" for place in range(len(called)))]
    nodes = [
        helper.make_node(each, [values[place]], [values[place + 1]], domain="" if each == "Relu" else "f")
        for place, each in enumerate(called)
    ]
    return helper.make_function("f", name, ["x"], [values[-1]], nodes, opsets)


def calling(functions: list[onnx.FunctionProto], name: str) -> onnx.ModelProto:
    """A model of one node that calls a function."""
    value = [helper.make_tensor_value_info(each, TensorProto.FLOAT, ["n", 4]) for each in ("x", "y")]
    graph = helper.make_graph([helper.make_node(name, ["x"], ["y"], domain="f")], "g", value[:1], value[1:])
    return helper.make_model(graph, opset_imports=OPSETS, functions=functions, ir_version=10)


@given(st.lists(st.lists(st.integers(-2, 6), min_size=1, max_size=3), min_size=1, max_size=7), st.randoms())
@settings(max_examples=30, deadline=None)
def test_nodes_are_counted_as_onnx_inlines_them(bodies: list[list[int]], random: object) -> None:
    """Of functions that call earlier ones any number of times, in any order of the file, by the reference inliner."""
    names = [["Relu" if not 0 <= each < place else f"f{each}" for each in body] for place, body in enumerate(bodies)]
    functions = [function(f"f{place}", called) for place, called in enumerate(names)]
    model = calling(sorted(functions, key=lambda _: random.random()), f"f{len(names) - 1}")  # type: ignore[attr-defined]
    inlined = inliner.inline_local_functions(model)
    assert len(inlined.functions) == 0
    assert opened_size(model) == 1000 * len(list(all_nodes(inlined)))


def made(op_type: str, sizes: list[int], *, inside: str = "") -> onnx.ModelProto:
    """A model that adds up a tensor of these sizes, made of constants; `inside` a body or a function, perhaps."""
    given = {"Expand": ["one", "sizes"], "Tile": ["row", "sizes"], "ConstantOfShape": ["sizes"]}[op_type]
    constants = {"one": np.ones(1, "f"), "row": np.ones([1] * len(sizes), "f"), "sizes": np.array(sizes, "<i8")}
    nodes = [
        *(
            helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))
            for name, array in constants.items()
        ),
        helper.make_node(op_type, given, ["large"]),
        helper.make_node("ReduceSum", ["large"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    value = [helper.make_tensor_value_info(each, TensorProto.FLOAT, ["n", 4]) for each in ("x", "y")]
    if inside == "function":
        return calling([helper.make_function("f", "big", ["x"], ["y"], nodes, OPSETS)], "big")
    if inside == "body":
        body = helper.make_graph(nodes, "body", [], value[1:])
        condition = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True)))
        nodes = [condition, helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=10)


NESTS = {
    "doubled thirty times": [function("f0", ["Relu"]), *(function(f"f{n}", [f"f{n - 1}"] * 2) for n in range(1, 31))],
    "grown by half of itself": [
        function("f0", ["Relu"]), function("f1", ["f0"] * 2),
        *(function(f"f{n}", [f"f{n - 1}", f"f{n - 2}"]) for n in range(2, 40)),
    ],
    "calls itself": [function("f0", ["Relu", "f0"])],
    "call each other": [function("f0", ["f1"]), function("f1", ["f2"]), function("f2", ["f0"])],
}  # fmt: skip


@pytest.mark.parametrize("kind", NESTS)
def test_functions_that_grow_without_bound_are_refused(tmp_path: Path, kind: str) -> None:
    """Before a runtime sees them, which would take all time and memory; a chain as deep is a model as any."""
    functions = NESTS[kind]
    onnx.save(calling(functions, functions[-1].name), tmp_path / "m.onnx")
    with pytest.raises(ModelFileError, match="becomes too large where a runtime opens it") as error:
        read_graph(tmp_path / "m.onnx")
    assert "next: export it again without functions inside functions" in str(error.value)
    chain = [function("f0", ["Relu"]), *(function(f"f{n}", [f"f{n - 1}", "Relu"]) for n in range(1, 2000))]
    assert opened_size(calling(chain, "f1999")) == 1000 * 2000


@pytest.mark.parametrize("inside", ["", "body", "function"])
@pytest.mark.parametrize("op_type", ["Expand", "Tile", "ConstantOfShape"])
def test_constants_that_fill_the_memory_are_refused(tmp_path: Path, op_type: str, inside: str) -> None:
    """2^40 numbers of two, written by their sizes; a mask of 8192 x 8192 is none of them."""
    onnx.save(made(op_type, [2**20, 2**20], inside=inside), tmp_path / "m.onnx")
    with pytest.raises(ModelFileError, match="becomes too large where a runtime opens it"):
        read_graph(tmp_path / "m.onnx")
    onnx.save(made(op_type, [8192, 8192], inside=inside), tmp_path / "m.onnx")
    assert read_graph(tmp_path / "m.onnx").graph.output[0].name == "y"


def test_what_the_inputs_make_large_is_no_constant() -> None:
    """A table that is repeated for each sample is folded by nobody; damaged sizes are nobody's either."""
    model = made("Expand", [2**20, 2**20])
    model.graph.node[3].input[0] = "x"
    assert opened_size(model) == 1000 * len(model.graph.node)
    damaged = made("Expand", [2**20, 2**20])
    damaged.graph.node[2].attribute[0].t.raw_data = b"\x01\x02\x03"
    assert opened_size(damaged) == 1000 * len(damaged.graph.node) + 1
