"""What the TensorRT provider is told, what is written for it, and the layers that the log of its builds lists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.backends.trt.coverage import count_layers
from pytest_quant.backends.trt.provider_engine import (
    layers_in_summary,
    profile_options,
    provider_options,
    readable_log,
)
from pytest_quant.errors import UsageError
from pytest_quant.spec import EngineSpec, Model

SPEC = EngineSpec("ort-trt", "int8", "static", Model.from_onnx("model.onnx"))


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "int8"])
def test_each_precision_turns_on_its_own_switch(precision: str, tmp_path: Path) -> None:
    """And turns the others off, in words, for what is left out keeps the value of an environment variable."""
    spec = replace(SPEC, precision=precision, scheme="static" if precision == "int8" else None)
    options = provider_options(spec, tmp_path)
    assert {name: options[f"trt_{name}_enable"] for name in ("fp16", "bf16", "int8")} == {
        name: str(int(name == precision)) for name in ("fp16", "bf16", "int8")
    }


def test_shapes_in_the_spelling_of_the_provider() -> None:
    """``name:1x3x64x64``, inputs parted by commas, in three options of the same order."""
    shapes = {"x": ((1, 3, 32, 32), (4, 3, 64, 64), (32, 3, 96, 320)), "ids": ((1, 7), (4, 7), (32, 90))}
    assert profile_options(shapes) == {
        "trt_profile_min_shapes": "ids:1x7,x:1x3x32x32",
        "trt_profile_opt_shapes": "ids:4x7,x:4x3x64x64",
        "trt_profile_max_shapes": "ids:32x90,x:32x3x96x320",
    }
    assert profile_options({}) == {}


@pytest.mark.parametrize("name", ["input:0", "a,b"])
def test_a_name_that_the_provider_would_cut(name: str) -> None:
    """It would take what follows the first colon for the shape."""
    with pytest.raises(UsageError, match=f"input '{name}'"):
        profile_options({name: ((1, 2), (1, 2), (1, 2))})


TENSORRT_10 = """\
\x1b[0;93m2026-11-22 17:17:35.343 [W:onnxruntime:Default, tensorrt_execution_provider.h:93 log] [2026-11-22 17:17:35 \
UNKNOWN] Engine Layer Information:
Layer(Reformat): Reformatting CopyNode for Input Tensor 0 to conv1 + relu1, Tactic: 0x00000000000003e8, \
x (Float[1,3,64,64]) -> Reformatted Input Tensor 0 to conv1 + relu1 (Int8[1,3:4,64,64])
Layer(CaskConvolution): conv1.weight + QuantizeLinear_3 + conv1 + relu1, Tactic: 0x4727434768e46395, \
Reformatted Input Tensor 0 to conv1 + relu1 (Int8[1,3:4,64,64]) -> a (Int8[1,32:32,64,64])
Layer(CaskConvolution): conv10 + PWN(clip), Tactic: 0x02d9f5211e4d2d82, a (Float[1,32,64,64]), \
r (Int8[1,32:32,64,64]) -> b (Float[1,32,64,64])
Layer(CaskGemmMatrixMultiply): head/MatMulAddFusion, Tactic: 0x0000000000020054, b (Half[1,32]) -> y (Half[1,10])
Layer(Myelin): {ForeignNode[attention_q...softmax]}, Tactic: 0x0000000000000000, y (Float[8,1,8]) -> z (Float[8,10])
\x1b[m
"""

TENSORRT_8 = """\
Layer(Reformat): Reformatting CopyNode for Input Tensor 0 to Conv_0, Tactic: 1002, \
x[Float(-8,3,224,224)] -> Reformatted Input Tensor 0 to Conv_0[Int8(-8,3,224,224)]
Layer(CaskConvolution): Conv_0 + PWN(Clip_3), Tactic: -1838109259315759592, \
(Unnamed Layer* 1) [Shuffle]_output[Int8(-8,3,224,224)] -> 191[Int8(-8,96,56,56)]
"""


def rows(text: str, *nodes: str) -> dict[str, tuple[str, list[str], list[str]]]:
    """Return kind, input types and nodes by name."""
    layers = layers_in_summary(text, nodes)
    return {layer.name: (layer.kind, list(layer.input_types), list(layer.nodes)) for layer in layers}


def test_layers_of_version_10() -> None:
    """Name, kind, types of all inputs in order and the nodes that the name holds, none of which begins another."""
    result = rows(TENSORRT_10, "conv1", "conv10", "head", "attention_q", "attention_k", "softmax", "")
    assert result["conv1.weight + QuantizeLinear_3 + conv1 + relu1"] == ("CaskConvolution", ["Int8"], ["conv1"])
    assert result["conv10 + PWN(clip)"] == ("CaskConvolution", ["Float", "Int8"], ["conv10"])
    assert result["head/MatMulAddFusion"] == ("CaskGemmMatrixMultiply", ["Half"], ["head"])
    assert result["{ForeignNode[attention_q...softmax]}"][0] == "Myelin"
    assert len(result) == 5


def test_layers_before_version_10() -> None:
    """Types lie in other brackets, sizes may be free, and tactics are decimal."""
    result = rows(TENSORRT_8, "Conv_0")
    assert result["Conv_0 + PWN(Clip_3)"] == ("CaskConvolution", ["Int8"], ["Conv_0"])


def test_what_is_counted() -> None:
    """Of four products one reads int8, two float types, and one is inside Myelin; its last node's name is no proof."""
    ops = {"conv1": "Conv", "conv10": "Conv", "head": "MatMul", "attention_q": "MatMul"}
    layers = layers_in_summary(TENSORRT_10, ops)
    result = count_layers(layers, ops, "int8", "TensorRT", {})
    assert (result.opaque_nodes, result.float_nodes) == (1, ("conv10", "head"))
    for precision in ("int8", "fp32", "fp16"):
        result = count_layers(layers, ops, precision, "TensorRT", {})
        assert (result.pct, result.high_pct) == (25.0, 50.0)


def test_the_log_that_is_kept() -> None:
    """Layers and warnings stay; colors and the rest of the verbose log go."""
    missing = "[2026-11-22 17:17:35 WARNING] Missing scale and zero-point for tensor a, expect fall back"
    verbose = "[2026-11-22 17:17:35 UNKNOWN] Tactic: 0x0 Time: 0.006"
    log = readable_log(f"{missing}\n{verbose}\nLayer(s): none\n{TENSORRT_10}")
    assert missing in log
    assert "Layer(CaskConvolution): conv10" in log
    assert not any(word in log for word in ("UNKNOWN", "Time: 0.006", "\x1b"))
    assert layers_in_summary(log, ["conv1"]) == layers_in_summary(TENSORRT_10, ["conv1"])
