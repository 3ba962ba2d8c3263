"""Nodes of an optimized graph are traced to those of the user's model, through fusions, layouts and Q/DQ pairs."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest

from pytest_quant.backends.onnx_files.lineage import find_user_nodes, trace


def _graph(body: str, constants: str = "") -> onnx.GraphProto:
    """Return a graph x -> y."""
    return onnx.parser.parse_graph(f"agraph (float[n, 4] x) => (float[n, 4] y) {constants} {{ {body} }}")


WEIGHT = "<float[4, 4] w, float[4] b>"
MODEL = _graph(
    """
    [product] p = MatMul(x, w)
    [bias] q = Add(p, b)
    [active] r = Relu(q)
    [last] y = Mul(r, x)
    """,
    constants=WEIGHT,
)


def test_an_untouched_graph_is_traced_to_itself() -> None:
    """Each node stands for itself."""
    assert [nodes for nodes, _ in trace(MODEL, MODEL, MODEL)] == [("product",), ("bias",), ("active",), ("last",)]


def test_a_fused_node_stands_for_all_between_its_tensors() -> None:
    """The fused node keeps the last tensor; nodes in between belong to it, whatever it is called."""
    optimized = _graph('["product/MatMulAddFusion"] r = FusedGemm(x, w, b) [last] y = Mul(r, x)', constants=WEIGHT)
    assert [nodes for nodes, _ in trace(optimized, MODEL, MODEL)] == [("product", "bias", "active"), ("last",)]


def test_a_layout_of_its_own_is_traced_by_names() -> None:
    """Where tensors are renamed the name of the node is built on an old one; the reorder stands for no node."""
    optimized = _graph(
        """
        [ReorderInput] reorder_token_0 = ReorderInput(x)
        [active_nchwc] reorder_token_1 = Conv(reorder_token_0, w)
        [ReorderOutput] r = ReorderOutput(reorder_token_1)
        [last] y = Mul(r, x)
        """,
        constants=WEIGHT,
    )
    assert trace(optimized, MODEL, MODEL) == [
        ((), "reformat"),
        (("product", "bias", "active"), "compute"),
        ((), "reformat"),
        (("last",), "compute"),
    ]


def test_the_activation_that_the_quantizer_drops_goes_to_the_layer_before() -> None:
    """The range of the integers does what the Relu did, so the layer that writes them stands for it."""
    engine = _graph(
        """
        [in_Q] xq = QuantizeLinear(x, s, z)
        [in_DQ] xd = DequantizeLinear(xq, s, z)
        [product] p = MatMul(xd, w)
        [bias] r = Add(p, b)
        [r_Q] rq = QuantizeLinear(r, s, z)
        [r_DQ] rd = DequantizeLinear(rq, s, z)
        [last] yi = Mul(rd, xd)
        [y_Q] yq = QuantizeLinear(yi, s, z)
        [y_DQ] y = DequantizeLinear(yq, s, z)
        """,
        constants="<float[4, 4] w, float[4] b, float s, uint8 z>",
    )
    optimized = _graph(
        """
        [in_Q] xq = QuantizeLinear(x, s, z)
        [Transpose_token_3] xt = Transpose(xq)
        [bias_token_1] bias = QGemm(xt, w, b)
        [last] yq = QLinearMul(bias, xq)
        [y_DQ] y = DequantizeLinear(yq, s, z)
        """,
        constants="<float[4, 4] w, float[4] b, float s, uint8 z>",
    )
    assert trace(optimized, engine, MODEL) == [
        ((), "reformat"),
        ((), "reformat"),
        (("product", "bias", "active"), "compute"),
        (("last",), "compute"),
        ((), "reformat"),
    ]


def test_dynamic_quantization_has_several_nodes_for_one() -> None:
    """An integer product and what scales it stand for the product; the cast between them is a change of type."""
    model = _graph("[conv] y = Conv(x, w)", constants="<float[4, 4] w>")
    engine = _graph(
        """
        [x_QuantizeLinear] xq, xs, xz = DynamicQuantizeLinear(x)
        [conv_quant_scales_mul] scale = Mul(xs, ws)
        [conv_quant] y_output_quantized = ConvInteger(xq, w, xz)
        [y_output_quantized_cast] c = Cast(y_output_quantized)
        [conv_quant_output_scale_mul] y = Mul(c, scale)
        """,
        constants="<int8[4, 4] w, float ws>",
    )
    assert trace(engine, engine, model) == [
        ((), "reformat"),
        (("conv",), "compute"),
        (("conv",), "compute"),
        ((), "reformat"),
        (("conv",), "compute"),
    ]


@pytest.mark.parametrize(("op_type", "role"), [("MemcpyToHost", "copy"), ("MemcpyFromHost", "copy")])
def test_copies_stand_for_no_node(op_type: str, role: str) -> None:
    """What is behind a copy is found all the same."""
    optimized = _graph(
        f"""
        [product] p = MatMul(x, w)
        [bias] q = Add(p, b)
        [Memcpy_token_2] q_on_device = {op_type}(q)
        [active] r = Relu(q_on_device)
        [last] y = Mul(r, x)
        """,
        constants=WEIGHT,
    )
    result = trace(optimized, MODEL, MODEL)
    assert result[2] == ((), role)
    assert [nodes for nodes, role in result if role == "compute"] == [("product",), ("bias",), ("active",), ("last",)]


def test_the_users_own_cast_and_transpose_are_compute() -> None:
    """A cast that the optimizer adds for want of a kernel is a change of type, one of the model is a node of it."""
    model = _graph("[turn] t = Transpose(x)\n[to_half] y = Cast(t)")
    optimized = _graph(
        """
        [InsertedPrecisionFreeCast_x] c = Cast(x)
        [turn] t = Transpose(c)
        [Transpose_token_4] u = Transpose(t)
        [to_half] y = Cast(u)
        """
    )
    assert [role for _, role in trace(optimized, model, model)] == ["reformat", "compute", "reformat", "compute"]


def test_what_is_computed_of_constants_belongs_to_nobody() -> None:
    """It is folded when the model is opened, and never runs."""
    model = _graph("[fold] v = Neg(w)\n[scaled] y = Mul(x, v)", constants="<float[1] w = {2.0}>")
    optimized = _graph("[scaled] y = Mul(x, v)", constants="<float[1] v = {-2.0}>")
    assert trace(optimized, model, model) == [(("scaled",), "compute")]


def test_a_node_without_a_name_is_called_by_its_output() -> None:
    """As TensorRT's parser calls it, so that engines of both can be compared."""
    model = _graph("y = Relu(x)")
    assert trace(model, model, model) == [(("node_of_y",), "compute")]


def test_a_node_that_cannot_be_traced_is_other() -> None:
    """Its time counts, and is nobody's."""
    optimized = _graph("[invented] secret = Frobnicate(x)\n[kept] y = Relu(secret)")
    model = _graph("[kept] y = Relu(x)")
    assert trace(optimized, model, model) == [((), "other"), (("kept",), "compute")]


@pytest.mark.parametrize(
    "origins",
    [
        [["bias", "active"], ["y"]],
        [["product/DequantizationMultiply", "r/fq_output_0"], ["last"]],
        [["active"], ["last/WithoutBiases"]],
    ],
)
def test_a_layer_has_what_lies_between_the_nodes_that_it_names(origins: list[list[str]]) -> None:
    """Names of nodes and of their outputs; of a fused product one runtime keeps its own name, another the bias's."""
    assert find_user_nodes(MODEL, origins) == [("product", "bias", "active"), ("last",)]
