"""Options are checked by name, type and range."""

from __future__ import annotations

import json

import pytest

from pytest_quant.backends.ort import parse_options
from pytest_quant.errors import UsageError


def test_known_options() -> None:
    """A value of the right type is taken, a list as a tuple."""
    written = {"threads": 4, "op_types": ["MatMul", "Conv"], "per_channel": False, "symmetric": True, "block_size": 64}
    parsed = parse_options(written.items())
    assert {name: getattr(parsed, name) for name in written} == {**written, "op_types": ("MatMul", "Conv")}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threads", 0),
        ("threads", True),
        ("threads", "2"),
        ("op_types", []),
        ("op_types", "Conv"),
        ("op_types", [1]),
        ("per_channel", 1),
        ("activation_type", "float16"),
        ("weight_type", "int4"),
        ("block_size", 48),
        ("accuracy_level", 5),
        ("accuracy_level", True),
        ("extra", ["ActivationSymmetric"]),
        ("extra", {"QuantizeBias": object()}),
    ],
)
def test_wrong_values(name: str, value: object) -> None:
    """A value of another type or out of range is refused with its name and value."""
    with pytest.raises(UsageError, match=f"'{name}'") as caught:
        parse_options([(name, value)])
    assert repr(value) in str(caught.value)


def test_other_provider() -> None:
    """A provider that this backend does not run on is an error, never the CPU in silence."""
    with pytest.raises(UsageError, match="backend 'ort' has no option 'provider'") as caught:
        parse_options([("provider", "CUDAExecutionProvider")])
    assert "CUDAExecutionProvider" in str(caught.value)


def test_pair_without_kernels() -> None:
    """int8 activations with uint8 weights are refused before anything is built."""
    with pytest.raises(UsageError, match="no kernels"):
        parse_options([("activation_type", "int8"), ("weight_type", "uint8")])


def test_extra_is_passed_on() -> None:
    """Known keys of `extra` survive as they are, so that any recipe of the quantizer can be written."""
    recipe = {"ActivationSymmetric": True, "OpTypesToExcludeOutputQuantization": ["Conv", "Gemm"]}
    assert json.loads(parse_options([("extra", recipe)]).extra) == recipe


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"ActivationSymetric": True}, "did you mean 'ActivationSymmetric'"),
        ({"CalibMaxIntermediateOutputs": 10}, "is not taken"),
        ({"CalibMovingAverage": True}, "is not taken"),
        ({7: True}, "extra option '7'"),
    ],
)
def test_extra_that_would_be_ignored_or_harm(extra: dict[object, object], words: str) -> None:
    """ONNX Runtime ignores a key it does not know; here it is an error, and so is one that does harm."""
    with pytest.raises(UsageError, match="extra option") as caught:
        parse_options([("extra", extra)])
    assert words in str(caught.value)
