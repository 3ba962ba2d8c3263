"""TF32 is an option that is there or is not, and nothing asks for it where the environment switches it off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.backends import TF32, backend_names, get_backend, with_tf32
from pytest_quant.backends.tf32 import OVERRIDE, is_switched_off, switch_off
from pytest_quant.errors import UsageError
from pytest_quant.spec import EngineSpec, Model

SPEC = EngineSpec("trt", "fp32", None, Model("net"), options=(("workspace_mb", 8),))
ROUNDING = replace(SPEC, options=(("tf32", True), ("workspace_mb", 8)))


@pytest.fixture(autouse=True)
def no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a usual machine, and the same after the test."""
    monkeypatch.setenv(OVERRIDE, "1")
    monkeypatch.delenv(OVERRIDE)


def test_the_option_is_there_or_is_not() -> None:
    """Off is no option at all, so that an engine has one cache key; other options stay, sorted by name."""
    assert with_tf32(SPEC, allowed=True) == with_tf32(ROUNDING, allowed=True) == ROUNDING
    assert with_tf32(SPEC, allowed=False) == with_tf32(ROUNDING, allowed=False) == SPEC
    assert with_tf32(replace(SPEC, options=(("tf32", False),)), allowed=False).options == ()


def test_what_the_environment_switches_off_cannot_be_had() -> None:
    """The libraries would round nothing, whatever the option says."""
    assert not is_switched_off()
    switch_off()
    assert is_switched_off()
    assert with_tf32(ROUNDING, allowed=False) == SPEC
    with pytest.raises(UsageError, match="TF32 is switched off in this process") as caught:
        with_tf32(SPEC, allowed=True)
    assert (caught.value.value, "unset NVIDIA_TF32_OVERRIDE" in str(caught.value.fix)) == (
        "NVIDIA_TF32_OVERRIDE=0 in the environment",
        True,
    )


def test_backends_for_nvidias_devices_know_of_it_and_others_do_not() -> None:
    """It is in what they offer, so that the core names none."""
    offering = {name for name in backend_names() if TF32 in get_backend(name).offer.options}
    assert offering == {"ort-cuda", "ort-trt", "torch-cuda", "trt", "trt-rtx"}


@pytest.mark.parametrize("name", ["ort-cuda", "torch-cuda", "trt", "trt-rtx"])
def test_a_backend_takes_its_own_option(name: str) -> None:
    """What it returns it also lets pass, and what it builds the one from is not what it builds the other from."""
    backend = get_backend(name)
    plain = EngineSpec(name, "fp32", None, Model("net"))
    rounding = with_tf32(plain, allowed=True)
    backend.check(rounding)
    assert rounding.options == (("tf32", True),)
    assert with_tf32(rounding, allowed=False) == plain


def test_on_the_cpu_there_is_no_such_option() -> None:
    """It would do nothing there."""
    for name in ("torch", "ort", "ort-openvino", "openvino"):
        with pytest.raises(UsageError, match=f"backend '{name}' has no option 'tf32'"):
            get_backend(name).check(EngineSpec(name, "fp32", None, Model("net"), options=(("tf32", True),)))
