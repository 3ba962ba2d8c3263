"""What a backend does not offer is refused at collection."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.backends.ort import OrtBackend
from pytest_quant.errors import UsageError
from pytest_quant.spec import Calibration, EngineSpec, Model

MODEL = Model("m", Path("m.onnx"))
STATIC = EngineSpec("ort", "int8", "static", MODEL)


@pytest.mark.parametrize(
    ("precision", "scheme"),
    [("fp32", None), ("int8", "static"), ("int8", "dynamic"), ("int4", "weight-only")],
)
def test_what_it_offers(precision: str, scheme: str | None) -> None:
    """Every offered precision and scheme passes, without a model file."""
    OrtBackend().check(EngineSpec("ort", precision, scheme, MODEL))


@pytest.mark.parametrize(
    ("precision", "scheme"),
    [
        ("fp16", None),
        ("fp8", "static"),
        ("int4", "static"),
        ("int8", "weight-only"),
        ("int8", None),
        ("fp32", "static"),
    ],
)
def test_what_it_does_not_offer(precision: str, scheme: str | None) -> None:
    """Another precision or scheme is refused with those it has."""
    with pytest.raises(UsageError) as caught:
        OrtBackend().check(EngineSpec("ort", precision, scheme, MODEL))
    assert caught.value.allowed


def test_qat_needs_its_model() -> None:
    """Scheme qat without a quantized model is refused; with one it passes."""
    spec = EngineSpec("ort", "int8", "qat", MODEL)
    with pytest.raises(UsageError, match="none is named"):
        OrtBackend().check(spec)
    OrtBackend().check(replace(spec, quantized=MODEL))


@pytest.mark.parametrize(
    ("calibration", "word"),
    [
        (Calibration(method="minimax"), "did you mean 'minmax'"),
        (Calibration(method="percentile", percentile=0.99), "percent"),
        (Calibration(method="percentile", percentile=101.0), "percent"),
        (Calibration(method="percentile", percentile=float("nan")), "percent"),
        (Calibration(batch_size=0), "batch_size"),
        (Calibration(samples=0), "samples"),
    ],
)
def test_calibration(calibration: Calibration, word: str) -> None:
    """An unknown method and numbers out of range are refused."""
    with pytest.raises(UsageError) as caught:
        OrtBackend().check(replace(STATIC, calibration=calibration))
    assert word in str(caught.value)


def test_calibration_of_other_schemes_is_not_looked_at() -> None:
    """Only static calibrates."""
    OrtBackend().check(EngineSpec("ort", "int8", "dynamic", MODEL, calibration=Calibration(method="none")))
