"""Layers of a plan, out of the builder's log, and what they mean."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_quant.backends.readback import LayerTime
from pytest_quant.backends.trt.coverage import (
    Layer,
    count_layers,
    layer_times_of,
    layers_in_inspection,
    layers_in_log,
)
from pytest_quant.errors import BuildError

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
    (layer,) = layers_in_log("Layers:\n" + line("correlation", "Float", "conv relu"))
    assert layer == Layer("conv relu_myl0", "correlation", ("Float",), ("conv", "relu"), "t")


def test_other_lines_are_not_layers() -> None:
    """A layer without inputs is one, a line about memory is not."""
    empty = (
        "Name: s, LayerType: shape_call, Inputs: [], Constants: [], Outputs: [], TacticName: , StreamId: 0, Metadata: "
    )
    text = f"[VERBOSE] Layers:\n{empty}\nAdding 1 engine(s) to plan file."
    assert [layer.kind for layer in layers_in_log(text)] == ["shape_call"]


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
    layers = layers_in_log(f"{conv}\n{dense}")
    result = count_layers(layers, OPS, "int8", "TensorRT", {})
    assert (result.pct, result.opaque_nodes, result.unit) == (pct, opaque, "nodes")


def test_a_recurrence_is_compute_that_is_not_int8() -> None:
    """An LSTM is part of what an int8 plan leaves in float, whatever its layers look like."""
    layers = layers_in_log(f"{line('gemm', 'Int8', 'dense')}\n{line('kgen', 'Int8', 'rnn')}")
    result = count_layers(layers, {"dense": "Gemm", "rnn": "LSTM"}, "int8", "TensorRT", {"dense": 100, "rnn": 300})
    assert (result.pct, result.float_nodes) == (25.0, ("rnn",))


MHA = Layer("_gemm_mha_v2_myl0_24", "kgen", ("Half",), ("scores", "softmax", "values"), "_gemm_mha_v2")
ATTENTION = {"dense": "Gemm", "scores": "MatMul", "softmax": "Softmax", "values": "MatMul"}


@pytest.mark.parametrize(("reads", "pct"), [("Half", 100 * 1000 / 101_000), ("Int8", 100.0)])
def test_a_fused_attention_is_two_products(reads: str, pct: float) -> None:
    """By what it reads: 1000 MACs in int8 beside 100 000 in a fused attention in half are no 100 %."""
    layers = [Layer("dense", "gemm", ("Int8",), ("dense",)), replace(MHA, input_types=(reads, "Half"))]
    result = count_layers(layers, ATTENTION, "int8", "TensorRT", {"dense": 1000, "scores": 50_000, "values": 50_000})
    assert result.pct == pytest.approx(pct)
    assert (result.unit, result.opaque_nodes, result.high_pct) == ("MACs", 0, None)


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
    result = count_layers([hidden, seen, conv], ops, "int8", "TensorRT", {"dense": 300, "conv": 100})
    assert (result.pct, result.high_pct, result.opaque_nodes) == (25.0, 100.0, 1)
    assert result.notes == ("the engine hides the type that 1 of 2 products read",)
    floating = replace(seen, input_types=("Float",))
    assert count_layers([hidden, floating, conv], ops, "int8", "TensorRT", {}).high_pct is None


def test_what_ran_in_place_of_the_asked_precision_is_told() -> None:
    """An FP8 engine has no INT8 in it, and the reader learns what it has."""
    layers = [Layer("a", "CaskConvolution", ("FP8",), ("conv",)), Layer("b", "gemm", ("Float",), ("dense",))]
    result = count_layers(layers, {"conv": "Conv", "dense": "Gemm"}, "int8", "TensorRT", {})
    assert (result.pct, result.notes) == (0.0, ("1 of 2 products ran in fp8",))


def test_a_name_with_brackets_is_whole() -> None:
    """Names of nodes are the exporter's, and end where the next begins."""
    names = ["blocks[0]/MatMul", "net[1][2]", "last]"]
    for between in ("", "\x1e", "\x1f"):
        metadata = between.join(f"[ONNX Layer: {name}]" for name in names)
        (layer,) = layers_in_inspection(inspection(Metadata=metadata))
        assert list(layer.nodes) == names


METADATA = "[ONNX Layer: conv]\x1e[ONNX Layer: relu]"
WANTED = Layer("conv + relu", "CaskConvolution", ("Int8",), ("conv", "relu"))


def inspection(*tensors: dict[str, object], **more: object) -> str:
    """One layer that reads `tensors`."""
    layer = {
        "Name": WANTED.name, "LayerType": WANTED.kind, "Inputs": list(tensors), "Metadata": METADATA, **more,
    }  # fmt: skip
    return json.dumps({"Layers": [layer], "Bindings": ["x", "y"]})


@pytest.mark.parametrize(
    "tensor",
    [
        {"Name": "x", "Format/Datatype": "Thirty-two wide channel vectorized row major Int8 format"},
        {"Name": "x", "Format": "Row major linear format", "DataType": "Int8"},
    ],
)
def test_one_phrase_in_version_10_and_two_fields_in_version_11(tensor: dict[str, object]) -> None:
    """Format and type."""
    assert layers_in_inspection(inspection(tensor)) == [WANTED]


@pytest.mark.parametrize(
    ("phrase", "precision"),
    [
        ("Row major linear FP32", "fp32"),
        ("Channel major FP16 format where channel % 8 == 0", "fp16"),
        ("Row major linear BFloat16 format", "bf16"),
        ("Row major linear FP8 format", "fp8"),
        ("Row major Int8 format", "int8"),
    ],
)
def test_types_in_phrases(phrase: str, precision: str) -> None:
    """A layer of that type counts as that precision and as no other."""
    (layer,) = layers_in_inspection(inspection({"Name": "x", "Format/Datatype": phrase}))
    for engine_precision in ("fp32", "fp16", "bf16", "fp8", "int8"):
        result = count_layers([layer], {"conv": "Conv"}, engine_precision, "TensorRT", {})
        assert result.pct == (100.0 if engine_precision == precision else 0.0)


def test_names_alone_are_an_error() -> None:
    """Without the detailed verbosity nothing tells what a layer computes in, and float is not assumed."""
    with pytest.raises(BuildError, match="names of layers only"):
        layers_in_inspection(json.dumps({"Layers": ["conv + relu"], "Bindings": ["x", "y"]}))


HIDDEN: dict[str, object] = {"Name": "x", "Dimensions": [-1, 8], "Format/Datatype": "N/A due to dynamic shapes"}


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"Weights": {"Type": "Int8", "Count": 13824}}, "Int8"),
        ({"TacticName": "sm80_xmma_fprop_implicit_gemm_interleaved_i8f32_i8i32_f32_nchw_vect_c_32kcrs"}, "Int8"),
        ({"TacticName": "trt_volta_int8x4_icudnn_int8x4_128x64_relu_small_nn_v1"}, "Int8"),
        ({"TacticName": "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc"}, "Half"),
        ({"TacticName": "turing_h1688cudnn_256x64_ldg8_relu_exp_small_nhwc_tn_v1"}, "Half"),
        ({"TacticName": "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x32"}, "BFloat16"),
        ({"TacticName": "sm80_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc"}, "Float"),
        ({"TacticName": "ampere_scudnn_128x64_relu_medium_nn_v1"}, "Float"),
        ({"TacticName": "sm89_xmma_gemm_e4m3e4m3_e4m3f32_f32_tn_n"}, "FP8"),
        ({"TacticName": "0x0000000000000000", "Weights": None}, ""),
        ({}, ""),
    ],
)
def test_a_hidden_type_is_that_of_weights_or_kernel(more: dict[str, object], word: str) -> None:
    """Of free axes the inspector says "N/A"; what nothing else tells either is not known, and no float."""
    (layer,) = layers_in_inspection(inspection(HIDDEN, **more))
    assert layer.input_types == (word,)
    result = count_layers([layer], {"conv": "Conv"}, "int8", "TensorRT", {})
    assert (result.pct, result.opaque_nodes) == ((None, 1) if not word else (100.0 * (word == "Int8"), 0))


NODE_OPS = {"q": "QuantizeLinear", "dq": "DequantizeLinear", "conv": "Conv", "relu": "Relu", "turn": "Transpose"}


@pytest.mark.parametrize(
    ("layer", "nodes", "role"),
    [
        (Layer("conv + relu", "CaskConvolution", ("Int8",), ("dq", "conv", "relu", "q")), ("conv", "relu"), "compute"),
        (Layer("q", "Scale", ("Float",), ("q",)), (), "reformat"),
        (Layer("Reformatting CopyNode for Input Tensor 0", "Reformat", ("Float",), ()), (), "reformat"),
        (Layer("turn", "Shuffle", ("Float",), ("turn",)), ("turn",), "compute"),
        (Layer("shuffle between", "Shuffle", ("Float",), ()), (), "reformat"),
        (Layer("__myl_wait", "signal", (), ()), (), "other"),
    ],
)
def test_nodes_and_role(layer: Layer, nodes: tuple[str, ...], role: str) -> None:
    """Q/DQ nodes are no counterpart of anything in a float engine; a layer of them alone changes types."""
    (result,) = layer_times_of([layer], NODE_OPS)
    assert (result.nodes, result.role) == (nodes, role)


def test_the_precision_is_that_of_the_first_input() -> None:
    """In our words where there is one for it."""
    words = {"Int8": "int8", "Half": "fp16", "BFloat16": "bf16", "Float": "fp32", "FP8": "fp8", "Int32": "int32"}
    layers = [Layer(word, "Conv", (word, "Float"), ("conv",)) for word in words]
    assert [each.precision for each in layer_times_of(layers, NODE_OPS)] == list(words.values())


def test_what_ran_is_in_the_order_of_the_profiler() -> None:
    """A layer that never ran is left out, and an unknown one is other; without a run all are there without times."""
    layers = [Layer("idle", "NoOp", (), ()), Layer("conv", "Conv", ("Half",), ("conv",))]
    assert layer_times_of(layers, NODE_OPS, {"secret": 1.0, "conv": 2.0}) == (
        LayerTime("secret", "", "", 1.0, (), "other"),
        LayerTime("conv", "Conv", "fp16", 2.0, ("conv",), "compute"),
    )
    assert [(layer.name, layer.ms) for layer in layer_times_of(layers, NODE_OPS)] == [("idle", None), ("conv", None)]
