"""Layers of a plan, out of the builder's log, and what they mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.backends.trt.coverage import Layer, count_layers, layer_of, layers_in_log, nodes_in

TENSOR = (
    "Dimensions: [-1,8], Strides: [8,1], StrideOrder: [1,0], Datatype: {}, Format: (Linear) Row major linear format"
)
LINE = (
    "Name: {name}, LayerType: {kind}, Inputs: [ {{ Name: a, {inputs}}}], Constants: [ {{ Name: c, {constants}}}], "
    "Outputs: [ {{ Name: o, {outputs}}}], TacticName: t, StreamId: 0, Metadata: {metadata}"
)


def line(kind: str, reads: str, nodes: str) -> str:
    """One line as the log has it; the weights are Int8 and the output is Float."""
    metadata = "".join(f"[ONNX Layer: {node}]" for node in nodes.split())
    tensors = {
        "inputs": TENSOR.format(reads), "constants": TENSOR.format("Int8"), "outputs": TENSOR.format("Float"),
    }  # fmt: skip
    return LINE.format(name=f"{nodes}_myl0", kind=kind, metadata=metadata, **tensors)


def test_only_what_is_read_decides() -> None:
    """Weights and outputs have types too, and are not mistaken for inputs."""
    (row,) = layers_in_log("Layers:\n" + line("correlation", "Float", "conv relu"))
    assert layer_of(row) == Layer("conv relu_myl0", "correlation", ("Float",), ("conv", "relu"), "t")


def test_other_lines_are_not_layers() -> None:
    """A layer without inputs is one, a line about memory is not."""
    empty = (
        "Name: s, LayerType: shape_call, Inputs: [], Constants: [], Outputs: [], TacticName: , StreamId: 0, Metadata: "
    )
    text = f"[VERBOSE] Layers:\n{empty}\nAdding 1 engine(s) to plan file."
    assert [row["kind"] for row in layers_in_log(text)] == ["shape_call"]


OPS = {"conv": "Conv", "dense": "Gemm", "relu": "Relu"}


@pytest.mark.parametrize(
    ("conv", "dense", "pct", "opaque"),
    [
        (line("correlation", "Int8", "conv"), line("gemm", "Int8", "dense"), 100.0, 0),
        (line("correlation", "Int8", "conv"), line("gemm", "Float", "dense"), 50.0, 0),
        (line("correlation", "Float", "conv relu"), line("runtime_fusion", "Float", "dense"), 0.0, 0),
        (line("correlation", "Int8", "conv"), line("kgen", "Int8", "dense"), 50.0, 1),
        (line("correlation", "Int8", "conv"), "", 50.0, 1),
    ],
)
def test_coverage_of_a_plan(conv: str, dense: str, pct: float, opaque: int) -> None:
    """Products count by the type they read; one inside a pointwise kernel, or gone, is counted apart."""
    layers = [layer_of(row) for row in layers_in_log(f"{conv}\n{dense}")]
    found = count_layers(layers, OPS, "int8", "TensorRT", {})
    assert (found.pct, found.opaque_nodes, found.unit) == (pct, opaque, "nodes")


def test_a_product_split_over_layers_is_int8_only_if_all_are() -> None:
    """One half in float is not INT8."""
    both = f"{line('gemm', 'Int8', 'dense')}\n{line('gemm', 'Float', 'dense')}"
    found = count_layers([layer_of(row) for row in layers_in_log(both)], {"dense": "Gemm"}, "int8", "TensorRT", {})
    assert found.pct == 0.0


def test_products_weigh_what_they_multiply() -> None:
    """900 of 1000 multiply-accumulates in int8 are 90 %, although it is one product of two."""
    layers = [
        layer_of(row) for row in layers_in_log(f"{line('gemm', 'Int8', 'conv')}\n{line('gemm', 'Float', 'dense')}")
    ]
    found = count_layers(layers, OPS, "int8", "TensorRT", {"conv": 900, "dense": 100})
    assert (found.pct, found.unit) == (90.0, "MACs")


def test_a_recurrence_is_compute_that_is_not_int8() -> None:
    """An LSTM is part of what an int8 plan leaves in float, whatever its layers look like."""
    layers = [layer_of(row) for row in layers_in_log(f"{line('gemm', 'Int8', 'dense')}\n{line('kgen', 'Int8', 'rnn')}")]
    found = count_layers(layers, {"dense": "Gemm", "rnn": "LSTM"}, "int8", "TensorRT", {"dense": 100, "rnn": 300})
    assert (found.pct, found.float_nodes) == (25.0, ("rnn",))


MHA = Layer("_gemm_mha_v2_myl0_24", "kgen", ("Half",), ("scores", "softmax", "values"), "_gemm_mha_v2")
ATTENTION = {"dense": "Gemm", "scores": "MatMul", "softmax": "Softmax", "values": "MatMul"}


@pytest.mark.parametrize(("reads", "pct"), [("Half", 100 * 1000 / 101_000), ("Int8", 100.0)])
def test_a_fused_attention_is_two_products(reads: str, pct: float) -> None:
    """By what it reads: 1000 MACs in int8 beside 100 000 in a fused attention in half are no 100 %."""
    layers = [Layer("dense", "gemm", ("Int8",), ("dense",)), replace(MHA, input_types=(reads, "Half"))]
    found = count_layers(layers, ATTENTION, "int8", "TensorRT", {"dense": 1000, "scores": 50_000, "values": 50_000})
    assert found.pct == pytest.approx(pct)
    assert (found.unit, found.opaque_nodes, found.high_pct) == ("MACs", 0, None)


@pytest.mark.parametrize(
    ("name", "kind", "tactic", "multiplies"),
    [
        ("__myl_FcCastAddErf", "fusion", "sm80_xmma_gemm_i8i8_i8i32_f32_tn", True),
        ("__myl_FcMulAdd_myl0_25", "fusion", "", True),
        ("__myl_AddRelu", "fusion", "pointwise_vectorized", False),
        ("__myl_Slic_myl0_12", "kgen", "__myl_Slic_0xdb6b5efc55f5e43b2380eecc564aec85", False),
        ("conv_gemm_myl0_12", "kgen", "__myl_Slic", False),
        ("conv_gemm", "CaskConvolution", "", True),
        ("conv_gemm", "CaskConvActPool", "", True),
        ("conv_gemm", "CudaDepthwiseConvolution", "", True),
        ("conv_gemm", "CaskDeconvolutionV2", "", True),
        ("conv_gemm", "CaskGemmMatrixMultiply", "", True),
        *(
            (f"{kind} of conv_gemm", kind, "", False)
            for kind in ("Shuffle", "ElementWise", "PointWiseV2", "Scale", "Cast")
        ),
        ("{ForeignNode[conv_gemm]}", "Myelin", "", False),
    ],
)
def test_only_layers_that_multiply_are_products(name: str, kind: str, tactic: str, multiplies: bool) -> None:
    """What else carries the node's name hides the node where it is alone, and says nothing beside a product."""
    layer = Layer(name, kind, ("Float",), ("conv_gemm",), tactic)
    alone = count_layers([layer], {"conv_gemm": "Conv"}, "fp32", "TensorRT", {})
    assert (alone.pct, alone.opaque_nodes) == ((100.0, 0) if multiplies else (None, 1))
    beside = Layer("conv_gemm_myl0_1", "gemm", ("Int8",), ("conv_gemm",))
    both = count_layers([beside, layer], {"conv_gemm": "Conv"}, "int8", "TensorRT", {})
    assert both.pct == (0.0 if multiplies else 100.0)


def test_a_type_that_is_not_told_is_no_float() -> None:
    """It is neither: a product of which one layer is known to be float is float, else it is hidden, with a note."""
    hidden, seen = Layer("a", "gemm", ("",), ("dense",)), Layer("b", "gemm", ("Int8",), ("dense",))
    ops = {"dense": "Gemm", "conv": "Conv"}
    conv = Layer("c", "CaskConvolution", ("Int8",), ("conv",))
    found = count_layers([hidden, seen, conv], ops, "int8", "TensorRT", {"dense": 300, "conv": 100})
    assert (found.pct, found.high_pct, found.opaque_nodes) == (25.0, 100.0, 1)
    assert found.notes == ("the engine does not tell the type that 1 of 2 products read",)
    floating = replace(seen, input_types=("Float",))
    assert count_layers([hidden, floating, conv], ops, "int8", "TensorRT", {}).high_pct is None


def test_what_ran_in_place_of_the_asked_precision_is_told() -> None:
    """An FP8 engine has no INT8 in it, and the reader learns what it has."""
    layers = [Layer("a", "CaskConvolution", ("FP8",), ("conv",)), Layer("b", "gemm", ("Float",), ("dense",))]
    found = count_layers(layers, {"conv": "Conv", "dense": "Gemm"}, "int8", "TensorRT", {})
    assert (found.pct, found.notes) == (0.0, ("1 of 2 products ran in fp8",))


def test_a_name_with_brackets_is_whole() -> None:
    """Names of nodes are the exporter's, and end where the next begins."""
    names = ["blocks[0]/MatMul", "net[1][2]", "last]"]
    for between in ("", "\x1e", "\x1f"):
        assert nodes_in(between.join(f"[ONNX Layer: {name}]" for name in names)) == names
