"""On which processors the backend has what; PyTorch is a stand-in that is asked for its version alone."""

from __future__ import annotations

import platform
import sys
from types import SimpleNamespace

import pytest

from pytest_quant.backends import torch as torch_backend
from pytest_quant.backends.torch import TorchBackend
from pytest_quant.errors import BackendUnavailable
from pytest_quant.measure.engines import usable_backend
from pytest_quant.spec import EngineSpec, Model

INT8 = [scheme for scheme in TorchBackend.offer.precisions["int8"] if scheme]


def spec(precision: str, scheme: str | None = None) -> EngineSpec:
    """An engine of some module."""
    return EngineSpec("torch", precision, scheme, Model("net"))


@pytest.fixture(autouse=True)
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch is here, and a compiler for Inductor."""
    monkeypatch.setattr(torch_backend, "import_torch", lambda: SimpleNamespace(__version__="2.13.0"))
    monkeypatch.setenv("CXX", sys.executable)


@pytest.mark.parametrize("machine", ["aarch64", "arm64"])
@pytest.mark.parametrize("scheme", INT8)
def test_int8_is_not_available_on_arm(monkeypatch: pytest.MonkeyPatch, machine: str, scheme: str) -> None:
    """What is quantized for x86 would run in float there: it is skipped, with the reason and what to write instead."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(BackendUnavailable, match=f"x86 processors only, and this one is {machine}") as caught:
        usable_backend(spec("int8", scheme), TorchBackend())
    assert (caught.value.fix or "").startswith("write backend='ort'")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_float_is_available_on_arm(monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    """As a reference too; and so is the backend as a whole, for the doctor."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert TorchBackend().availability(spec(precision)).available
    assert TorchBackend().availability().available


@pytest.mark.parametrize("machine", ["x86_64", "AMD64"])
@pytest.mark.parametrize("scheme", INT8)
def test_int8_is_available_on_x86(monkeypatch: pytest.MonkeyPatch, machine: str, scheme: str) -> None:
    """As Linux and Windows spell it."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert TorchBackend().availability(spec("int8", scheme)).available
