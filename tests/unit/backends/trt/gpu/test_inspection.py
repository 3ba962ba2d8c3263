"""Layers from the inspector's JSON, of TensorRT 10 and of 11."""

from __future__ import annotations

import json

import pytest

from pytest_quant.backends.trt.coverage import Layer, count_layers
from pytest_quant.backends.trt.gpu.inspection import layers_in_inspection
from pytest_quant.errors import BuildError

METADATA = "[ONNX Layer: conv]\x1e[ONNX Layer: relu]"
WANTED = Layer("conv + relu", "CaskConvolution", ("Int8",), ("conv", "relu"))


def inspection(*tensors: dict[str, object], **more: object) -> str:
    """One layer that reads `tensors`."""
    layer = {
        "Name": WANTED.name, "LayerType": WANTED.kind, "Inputs": list(tensors), "Metadata": METADATA, **more,
    }  # fmt: skip
    return json.dumps({"Layers": [layer], "Bindings": ["x", "y"]})


def test_one_phrase_in_version_10() -> None:
    """Format and type stand in one string."""
    text = inspection(
        {"Name": "x", "Format/Datatype": "Thirty-two wide channel vectorized row major Int8 format"},
        Weights={"Type": "Int8", "Count": 72},
    )
    assert layers_in_inspection(text) == [WANTED]


def test_two_fields_in_version_11() -> None:
    """Format and type stand apart."""
    text = inspection({"Name": "x", "Format": "Row major linear format", "DataType": "Int8"})
    assert layers_in_inspection(text) == [WANTED]


@pytest.mark.parametrize(
    ("phrase", "word", "precision"),
    [
        ("Row major linear FP32", "Float", "fp32"),
        ("Channel major FP16 format where channel % 8 == 0", "Half", "fp16"),
        ("Row major linear BFloat16 format", "BFloat16", "bf16"),
        ("Row major linear FP8 format", "FP8", "fp8"),
        ("Row major Int8 format", "Int8", "int8"),
    ],
)
def test_types_are_those_of_the_builders_log(phrase: str, word: str, precision: str) -> None:
    """So one count serves both, and a layer of that type counts as that precision and as no other."""
    (layer,) = layers_in_inspection(inspection({"Name": "x", "Format/Datatype": phrase}))
    assert layer.input_types == (word,)
    for asked in ("fp32", "fp16", "bf16", "fp8", "int8"):
        found = count_layers([layer], {"conv": "Conv"}, asked, "TensorRT", {})
        assert found.pct == (100.0 if asked == precision else 0.0)


def test_names_alone_are_an_error() -> None:
    """Without the detailed verbosity nothing tells what a layer computes in, and float is not assumed."""
    with pytest.raises(BuildError, match="names of layers only"):
        layers_in_inspection(json.dumps({"Layers": ["conv + relu"], "Bindings": ["x", "y"]}))


@pytest.mark.parametrize("kind", ["Myelin", "ForeignNode", "kgen"])
def test_a_node_that_only_a_fused_layer_holds_is_opaque(kind: str) -> None:
    """It counts neither as INT8 nor as float, whatever it reads."""
    (layer,) = layers_in_inspection(inspection({"Name": "x", "DataType": "Int8"}, LayerType=kind))
    found = count_layers([layer], {"conv": "Conv"}, "int8", "TensorRT", {})
    assert (found.pct, found.opaque_nodes) == (None, 1)


HIDDEN: dict[str, object] = {"Name": "x", "Dimensions": [-1, 8], "Format/Datatype": "N/A due to dynamic shapes"}


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"Weights": {"Type": "Int8", "Count": 13824}}, "Int8"),
        ({"Weights": {"Type": "Half", "Count": 9408}}, "Half"),
        ({"TacticName": "sm80_xmma_fprop_implicit_gemm_interleaved_i8f32_i8i32_f32_nchw_vect_c_32kcrs"}, "Int8"),
        ({"TacticName": "sm80_xmma_gemm_i8i8_i8i32_f32_tn_n_tilesize32x64x64_stage6"}, "Int8"),
        ({"TacticName": "trt_volta_int8x4_icudnn_int8x4_128x64_relu_small_nn_v1"}, "Int8"),
        ({"TacticName": "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc"}, "Half"),
        ({"TacticName": "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc"}, "Half"),
        ({"TacticName": "turing_h1688cudnn_256x64_ldg8_relu_exp_small_nhwc_tn_v1"}, "Half"),
        ({"TacticName": "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x32"}, "BFloat16"),
        ({"TacticName": "sm80_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc"}, "Float"),
        ({"TacticName": "sm80_xmma_fprop_implicit_gemm_indexed_f32f32_f32f32_f32_nhwckcrs_nhwc"}, "Float"),
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
    found = count_layers([layer], {"conv": "Conv"}, "int8", "TensorRT", {})
    assert (found.pct, found.opaque_nodes) == ((None, 1) if not word else (100.0 * (word == "Int8"), 0))
