"""What TensorRT cannot take is found in the graph, before a build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from pytest_quant.backends.trt.preflight import check_graph
from pytest_quant.errors import BuildError

INT8_ZERO = numpy_helper.from_array(np.array(0, np.int8), "zero")


def graph(folder: Path, nodes: list[onnx.NodeProto], constants: dict[str, NDArray[Any]] | None = None) -> Path:
    """Write a model with these nodes between x and y."""
    weights = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        weights,
    )
    path = folder / "model.onnx"
    onnx.save_model(helper.make_model(made, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)
    return path


def pair(
    folder: Path, zero_point: NDArray[Any] | None, scale: NDArray[Any] | float = 0.1, axis: int | None = None
) -> Path:
    """Write a model that rounds its input and gives it back."""
    constants: dict[str, NDArray[Any]] = {"s": np.asarray(scale, np.float32)}
    names = ["s"]
    if zero_point is not None:
        constants["z"] = zero_point
        names.append("z")
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *names], ["q"], name="round"),
        helper.make_node("DequantizeLinear", ["q", *names], ["y"], name="back"),
    ]
    if axis is not None:
        for node in nodes:
            node.attribute.append(helper.make_attribute("axis", axis))
    return graph(folder, nodes, constants)


def test_a_symmetric_pair_is_taken(tmp_path: Path) -> None:
    """int8 around 0 with one constant scale."""
    check_graph(pair(tmp_path, np.array(0, np.int8)), target="SM75")


@pytest.mark.parametrize(
    ("zero_point", "scale", "axis", "cause"),
    [
        (np.array(0, np.uint8), 0.1, None, "uint8"),
        (None, 0.1, None, "uint8"),
        (np.array(3, np.int8), 0.1, None, "not 0"),
        (np.array(0, np.int8), 0.0, None, "not above 0"),
        (np.zeros(4, np.int8), np.full(4, 0.1), 1, "one scale for each channel of an activation"),
    ],
)
def test_a_pair_that_is_refused(
    tmp_path: Path, zero_point: NDArray[Any] | None, scale: Any, axis: int | None, cause: str
) -> None:
    """The node, the cause and what to do stand in the message."""
    with pytest.raises(BuildError, match=cause) as caught:
        check_graph(pair(tmp_path, zero_point, scale, axis))
    assert "node 'round' (QuantizeLinear)" in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize(
    "op", ["DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul"]
)
def test_operators_of_onnx_runtime(tmp_path: Path, op: str) -> None:
    """Operators on integers and ranges found while running are refused by name, with the way out."""
    path = graph(tmp_path, [helper.make_node(op, ["x"], ["y"], name="strange")])
    with pytest.raises(BuildError, match=f"node 'strange' \\({op}\\)") as caught:
        check_graph(path)
    assert "scheme='static'" in str(caught.value.fix)


def test_an_int32_bias(tmp_path: Path) -> None:
    """ONNX Runtime's quantizer writes one by default."""
    constants: dict[str, NDArray[Any]] = {
        "b": np.array([1, 2, 3, 4], np.int32),
        "s": np.array(0.1, np.float32),
        "z": np.array(0, np.int32),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["b", "s", "z"], ["bias"], name="bias"),
        helper.make_node("Add", ["x", "bias"], ["y"]),
    ]
    with pytest.raises(BuildError, match="int32 bias"):
        check_graph(graph(tmp_path, nodes, constants))


def test_a_scale_that_is_computed(tmp_path: Path) -> None:
    """TensorRT wants constants."""
    nodes = [
        helper.make_node("Abs", ["x"], ["s"]),
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="round"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    with pytest.raises(BuildError, match="must be a constant"):
        check_graph(graph(tmp_path, nodes, {"z": np.array(0, np.int8)}))


def test_scales_per_channel_of_a_weight_are_taken(tmp_path: Path) -> None:
    """They belong to a constant, which is what they are for."""
    constants: dict[str, NDArray[Any]] = {
        "w": np.ones((4, 4), np.int8),
        "s": np.full(4, 0.1, np.float32),
        "z": np.zeros(4, np.int8),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["weights"], axis=1),
        helper.make_node("MatMul", ["x", "weights"], ["y"]),
    ]
    check_graph(graph(tmp_path, nodes, constants))


def test_a_calibrator_beside_pairs(tmp_path: Path) -> None:
    """It would be ignored without a word."""
    path = pair(tmp_path, np.array(0, np.int8))
    with pytest.raises(BuildError, match="it would be ignored"):
        check_graph(path, calibrator=True)


@pytest.mark.parametrize(("target", "refused"), [("SM86", True), ("SM89", False), ("", False)])
def test_fp8_on_a_gpu_without_it(tmp_path: Path, target: str, refused: bool) -> None:
    """Ampere has none, Ada has; where the target is not known the builder decides."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="round"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    path = graph(tmp_path, nodes, {"s": np.array(0.1, np.float32)})
    model = onnx.load(path)
    model.graph.initializer.append(helper.make_tensor("z", TensorProto.FLOAT8E4M3FN, [], [0.0]))
    onnx.save_model(model, path)
    if refused:
        with pytest.raises(BuildError, match="FP8 needs a GPU"):
            check_graph(path, target=target)
    else:
        check_graph(path, target=target)


def test_several_faults_are_counted(tmp_path: Path) -> None:
    """The first is named, the others are not forgotten."""
    with pytest.raises(BuildError, match=r"and 1 more"):
        check_graph(pair(tmp_path, np.array(0, np.uint8)))


def cast_scale(folder: Path, scale: float) -> Path:
    """Write a model whose float32 scale is a cast of a float16 constant, as exports to float16 make it."""
    nodes = [
        helper.make_node("Identity", ["s16"], ["handed"], name="handed"),
        helper.make_node("Cast", ["handed"], ["s"], name="cast", to=TensorProto.FLOAT),
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="round"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="back"),
    ]
    return graph(folder, nodes, {"s16": np.array(scale, np.float16), "z": np.array(0, np.int8)})


COMPUTED: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "Mul": ([0.2, 0.5], {}),
    "Div": ([12.7, 127.0], {}),
    "Squeeze": ([[0.1]], {}),
    "ReduceMax": ([[0.1, 0.05]], {"keepdims": 0}),
}
"""Operators, what they read, and their attributes: each gives 0.1."""


def computed_scale(folder: Path, operator: str, factor: float = 1.0) -> Path:
    """Write a model whose scale is computed from constants by an operator of `COMPUTED`, then times `factor`."""
    values, attributes = COMPUTED[operator]
    constants = {f"c{place}": np.array(value, np.float32) for place, value in enumerate(values)}
    nodes = [
        helper.make_node(operator, list(constants), ["before"], name="before", **attributes),
        helper.make_node("Mul", ["before", "factor"], ["s"], name="times"),
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="round"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="back"),
    ]
    return graph(folder, nodes, {**constants, "factor": np.array(factor, np.float32), "z": np.array(0, np.int8)})


@pytest.mark.parametrize("operator", COMPUTED)
def test_a_scale_computed_from_constants_is_a_constant(operator: str, tmp_path: Path) -> None:
    """The parser folds whatever computes it, and takes a negative one too, which is no scale."""
    check_graph(computed_scale(tmp_path, operator))
    with pytest.raises(BuildError, match="not above 0"):
        check_graph(computed_scale(tmp_path, operator, -1.0))


def test_a_scale_computed_from_the_input_is_none(tmp_path: Path) -> None:
    """Among constants too."""
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Mul", ["most", "c"], ["s"]),
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="round"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="back"),
    ]
    with pytest.raises(BuildError, match="computed, and must be a constant"):
        check_graph(graph(tmp_path, nodes, {"c": np.array(0.1, np.float32), "z": np.array(0, np.int8)}))


def test_a_cast_of_a_constant_is_a_constant(tmp_path: Path) -> None:
    """The parser folds it; its value is looked at like any other."""
    check_graph(cast_scale(tmp_path, 0.1))
    with pytest.raises(BuildError, match="not above 0"):
        check_graph(cast_scale(tmp_path, 0.0))


@pytest.mark.parametrize(("kind", "fault"), [(np.int8, ""), (np.uint8, "saturates")])
def test_bodies_are_looked_at_too(tmp_path: Path, kind: type[np.generic], fault: str) -> None:
    """A pair inside an If reads the scale around it by name, and has faults like any other."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="round"),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["r"], name="back"),
        ],
        "body",
        [],
        [value("r", TensorProto.FLOAT, ["n", 4])],
    )
    nodes = [helper.make_node("If", ["yes"], ["y"], name="choice", then_branch=body, else_branch=body)]
    constants = {"yes": np.array(True), "s": np.array(0.1, np.float32), "z": np.zeros((), kind)}
    path = graph(tmp_path, nodes, constants)
    if not fault:
        check_graph(path)
        return
    with pytest.raises(BuildError, match="node 'round'") as caught:
        check_graph(path)
    assert fault in str(caught.value)


@pytest.mark.parametrize("through", ["value", "value_float", "identity"])
def test_a_scale_is_a_constant_wherever_it_stands(tmp_path: Path, through: str) -> None:
    """In a Constant node of any kind, or behind an Identity; one that is computed is refused."""
    constants: dict[str, NDArray[Any]] = {"z": np.array(0, np.int8)}
    nodes = []
    if through == "identity":
        constants["stored"] = np.array(0.1, np.float32)
        nodes.append(helper.make_node("Identity", ["stored"], ["s"]))
    elif through == "value":
        nodes.append(helper.make_node("Constant", [], ["s"], value=numpy_helper.from_array(np.array(0.1, np.float32))))
    else:
        nodes.append(helper.make_node("Constant", [], ["s"], value_float=0.1))
    nodes.append(helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="round"))
    nodes.append(helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="back"))
    check_graph(graph(tmp_path, nodes, constants))
    nodes[0] = helper.make_node("ReduceMax", ["x"], ["s"], keepdims=0)
    with pytest.raises(BuildError, match="must be a constant"):
        check_graph(graph(tmp_path, nodes, constants))
