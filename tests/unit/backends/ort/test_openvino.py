"""Whether the plugin can be used here, and why not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest

from pytest_quant.backends.ort import libraries as plugin
from pytest_quant.backends.ort.libraries import OPENVINO, cpu_devices, find_plugin
from pytest_quant.backends.ort.openvino import OrtOpenVinoBackend
from pytest_quant.errors import UsageError
from pytest_quant.spec import Calibration, EngineSpec, Model

CPU, GPU = onnxruntime.OrtHardwareDeviceType.CPU, onnxruntime.OrtHardwareDeviceType.GPU
SPEC = EngineSpec("ort-openvino", "int8", "static", Model.from_onnx("model.onnx"))


@dataclass(frozen=True)
class Device:
    """As ONNX Runtime tells of one."""

    ep_name: str
    type: Any = CPU
    vendor_id: int = 0x1022
    vendor: str = "AMD"

    @property
    def device(self) -> Device:
        """The piece of hardware under it."""
        return self


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> list[Device]:
    """The devices that ONNX Runtime knows once the plugin is registered; the test fills the list."""
    found: list[Device] = []
    package = SimpleNamespace(get_library_path=lambda: "plugin.so")
    monkeypatch.setattr(plugin, "find_spec", lambda _: object())
    monkeypatch.setattr(plugin, "import_module", lambda _: package)
    monkeypatch.setattr(plugin, "version", lambda _: "1.8.1")
    monkeypatch.setattr(onnxruntime, "register_execution_provider_library", lambda *_: None)
    monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: found)
    return found


def test_the_one_by_that_name(devices: list[Device]) -> None:
    """Siblings with longer names, and GPUs, are not it; of two alike one is enough."""
    wanted = Device(OPENVINO)
    devices += [Device(f"{OPENVINO}.AUTO"), replace(wanted, type=GPU), wanted, wanted, Device("CPUExecutionProvider")]
    assert cpu_devices() == [wanted]
    assert find_plugin().available


def test_a_cpu_of_another_maker(devices: list[Device]) -> None:
    """It is a skip that says who made the CPU, and which backend runs there."""
    devices.append(Device("CPUExecutionProvider"))
    found = find_plugin()
    assert (found.available, found.broken) == (False, False)
    assert "(AMD): it takes CPUs made by Intel only" in found.reason
    assert 'backend="openvino"' in found.fix


def test_no_device_though_intel_made_the_cpu(devices: list[Device]) -> None:
    """Then the maker is not blamed."""
    devices.append(Device("CPUExecutionProvider", vendor_id=0x8086, vendor="Intel"))
    found = find_plugin()
    assert not found.available
    assert "Intel" not in found.reason


def test_registered_already(devices: list[Device], monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else in the process has registered it: that is what was wanted."""

    def registered(*_: object) -> None:
        raise Exception(f"EP library is already registered under {OPENVINO}")  # noqa: TRY002

    monkeypatch.setattr(onnxruntime, "register_execution_provider_library", registered)
    devices.append(Device(OPENVINO))
    assert len(cpu_devices()) == 1


def test_a_plugin_that_does_not_load(devices: list[Device], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is broken, and the loader's words are quoted."""

    def refuse(*_: object) -> None:
        raise OSError("libopenvino.so: cannot open shared object file")

    monkeypatch.setattr(onnxruntime, "register_execution_provider_library", refuse)
    found = find_plugin()
    assert found.broken
    assert "OSError: libopenvino.so: cannot open" in found.reason
    assert "--force-reinstall onnxruntime-ep-openvino" in found.fix


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fix is the extra that brings it."""
    monkeypatch.setattr(plugin, "find_spec", lambda _: None)
    found = find_plugin()
    assert (found.available, found.broken) == (False, False)
    assert found.fix == 'pip install "pytest-quant[ort-openvino]"'


@pytest.mark.parametrize("provider", ["CPUExecutionProvider", OPENVINO, "CUDAExecutionProvider"])
def test_its_provider_is_no_option(provider: str) -> None:
    """Another provider is another backend."""
    with pytest.raises(UsageError, match="runs on OpenVINOExecutionProvider and nothing else"):
        OrtOpenVinoBackend().check(replace(SPEC, options=(("provider", provider),)))


def test_messages_name_this_backend() -> None:
    """An option with a slip of the pen is answered in its name, with the nearest one."""
    with pytest.raises(UsageError, match="backend 'ort-openvino' has no option 'thread'") as caught:
        OrtOpenVinoBackend().check(replace(SPEC, options=(("thread", 1),)))
    assert "threads" in str(caught.value)


def test_what_it_offers() -> None:
    """FP32, and INT8 by fixed ranges; not what OpenVINO has no kernels for in this form."""
    backend = OrtOpenVinoBackend()
    backend.check(SPEC)
    backend.check(replace(SPEC, precision="fp32", scheme=None, calibration=Calibration()))
    for precision, scheme in (("int8", "dynamic"), ("int4", "weight-only"), ("fp16", None)):
        with pytest.raises(UsageError, match="backend 'ort-openvino' has no"):
            backend.check(replace(SPEC, precision=precision, scheme=scheme))
