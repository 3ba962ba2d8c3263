"""What a backend does not offer is refused at collection; TF32 is an option that is there or is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.backends import TF32, backend_names, get_backend, set_tf32
from pytest_quant.backends.offer import OVERRIDE, is_switched_off, switch_off
from pytest_quant.backends.ort import OrtBackend
from pytest_quant.errors import UsageError
from pytest_quant.spec import Calibration, EngineSpec, Model

MODEL = Model("m", Path("m.onnx"))
STATIC = EngineSpec("ort", "int8", "static", MODEL)


def test_every_offered_precision_and_scheme_passes_without_a_model_file() -> None:
    """Another is refused with those that are there."""
    offered = {("fp32", None), ("int8", "static"), ("int8", "dynamic"), ("int4", "weight-only")}
    others = {("fp16", None), ("fp8", "static"), ("int4", "static"), ("int8", "weight-only"), ("int8", None)}
    for precision, scheme in offered:
        OrtBackend().check(EngineSpec("ort", precision, scheme, MODEL))
    for precision, scheme in others | {("fp32", "static")}:
        with pytest.raises(UsageError) as caught:
            OrtBackend().check(EngineSpec("ort", precision, scheme, MODEL))
        assert caught.value.allowed


def test_qat_needs_its_model() -> None:
    """Scheme qat without a quantized model is refused; with one it passes."""
    spec = EngineSpec("ort", "int8", "qat", MODEL)
    with pytest.raises(UsageError, match="none is named"):
        OrtBackend().check(spec)
    OrtBackend().check(replace(spec, quantized=MODEL))


def test_calibration() -> None:
    """An unknown method is refused with the nearest one."""
    with pytest.raises(UsageError, match="did you mean 'minmax'"):
        OrtBackend().check(replace(STATIC, calibration=Calibration(method="minimax")))


def test_calibration_of_other_schemes_is_not_looked_at() -> None:
    """Only static calibrates."""
    OrtBackend().check(EngineSpec("ort", "int8", "dynamic", MODEL, calibration=Calibration(method="none")))


TRT = EngineSpec("trt", "fp32", None, Model("net"), options=(("workspace_mb", 8),))
ROUNDING = replace(TRT, options=(("tf32", True), ("workspace_mb", 8)))


@pytest.fixture
def no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a usual machine, and the same after the test."""
    monkeypatch.setenv(OVERRIDE, "1")
    monkeypatch.delenv(OVERRIDE)


def test_the_option_is_there_or_is_not() -> None:
    """Off is no option at all, so that an engine has one cache key; other options stay, sorted by name."""
    assert set_tf32(TRT, allowed=True) == set_tf32(ROUNDING, allowed=True) == ROUNDING
    assert set_tf32(TRT, allowed=False) == set_tf32(ROUNDING, allowed=False) == TRT
    assert set_tf32(replace(TRT, options=(("tf32", False),)), allowed=False).options == ()


@pytest.mark.usefixtures("no_override")
def test_what_the_environment_switches_off_cannot_be_had() -> None:
    """The libraries would round nothing, whatever the option says."""
    assert not is_switched_off()
    switch_off()
    assert is_switched_off()
    assert set_tf32(ROUNDING, allowed=False) == TRT
    with pytest.raises(UsageError, match="TF32 is switched off in this process"):
        set_tf32(TRT, allowed=True)


def test_backends_for_nvidias_devices_know_of_it_and_others_do_not() -> None:
    """It is in what they offer, so that the core names none."""
    offering = {name for name in backend_names() if TF32 in get_backend(name).offer.options}
    assert offering == {"ort-cuda", "ort-trt", "torch-cuda", "trt", "trt-rtx"}


@pytest.mark.parametrize("name", ["ort-cuda", "torch-cuda", "trt", "trt-rtx"])
def test_a_backend_takes_its_own_option(name: str) -> None:
    """What it returns it also lets pass, and what it builds the one from is not what it builds the other from."""
    backend = get_backend(name)
    plain = EngineSpec(name, "fp32", None, Model("net"))
    rounding = set_tf32(plain, allowed=True)
    backend.check(rounding)
    assert rounding.options == (("tf32", True),)
    assert set_tf32(rounding, allowed=False) == plain
