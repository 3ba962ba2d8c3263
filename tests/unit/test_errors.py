"""A wrong name is answered with the one that was meant."""

from __future__ import annotations

import pytest

from pytest_quant.backends import nearest_backend
from pytest_quant.errors import UsageError, nearest
from pytest_quant.marks.keys import KEYS
from pytest_quant.metrics import resolve_metric


@pytest.mark.parametrize(
    ("name", "meant"), [("INT8", "int8"), ("tin8", "int8"), ("Fp16", "fp16"), ("BF61", "bf16"), ("xyz", None)]
)
def test_case_does_not_count(name: str, meant: str | None) -> None:
    """Nor do two letters in the wrong order; what is like none of them gets the list."""
    hint = "" if meant is None else f"did you mean '{meant}'? "
    assert nearest(name, ["int8", "int4", "fp16", "bf16"]) == f"{hint}known: bf16, fp16, int4, int8"


def test_a_name_that_people_use_comes_before_one_that_looks_like_it() -> None:
    """Unless what it means is no choice here."""
    others = {"onnx": "ort"}
    assert nearest("ONNX", ["openvino", "ort"], others) == "did you mean 'ort'? known: openvino, ort"
    assert nearest("onnx", ["openvino"], others) == "did you mean 'openvino'? known: openvino"
    assert nearest("onnx", ["openvino", "ort"]).startswith("did you mean 'openvino'?")


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("onnx", "ort"),
        ("onnxruntime", "ort"),
        ("onnxruntime-gpu", "ort-cuda"),
        ("OpenVINO", "openvino"),
        ("tensorrt", "trt"),
        ("pytorch", "torch"),
    ],
)
def test_backends_are_known_by_the_names_of_their_runtimes(name: str, backend: str) -> None:
    """As their packages are called."""
    assert nearest_backend(name).startswith(f"did you mean '{backend}'? known: ")


@pytest.mark.parametrize(
    ("key", "name", "meant"),
    [("scheme", "PTQ", "static"), ("scheme", "weight_only", "weight-only"), ("precision", "FLOAT16", "fp16")],
)
def test_values_of_a_mark_are_known_by_other_names(key: str, name: str, meant: str) -> None:
    """As papers and tools call them."""
    with pytest.raises(UsageError, match=f"did you mean '{meant}'"):
        KEYS[key].reader.read(key, name)


def test_metrics_are_known_by_other_names() -> None:
    """As training loops call them."""
    with pytest.raises(UsageError, match="did you mean 'top1'"):
        resolve_metric("Accuracy", "int", (1, 2))
