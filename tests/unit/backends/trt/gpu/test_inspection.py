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
