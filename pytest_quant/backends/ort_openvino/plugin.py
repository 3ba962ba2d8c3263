"""OpenVINO's plugin for ONNX Runtime: whether it is here, and its device."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from pytest_quant.backends.base import Availability
from pytest_quant.backends.ort import find_runtime

PROVIDER = "OpenVINOExecutionProvider"
DISTRIBUTION = "onnxruntime-ep-openvino"
_PACKAGE = "onnxruntime_ep_openvino"
_REPAIR = f"pip install --force-reinstall {DISTRIBUTION}"
_KNOWN_ALREADY = "already registered"
_INTEL = 0x8086
"""The maker's number, as on the PCI bus."""


def find_plugin() -> Availability:
    """Tell whether onnxruntime and the plugin are installed, load, and offer this CPU."""
    runtime = find_runtime()
    if not runtime.available:
        return runtime
    if find_spec(_PACKAGE) is None:
        return Availability(
            False, reason=f"{DISTRIBUTION} not installed", fix='pip install "pytest-quant[ort-openvino]"'
        )
    try:
        devices = cpu_devices()
    except Exception as error:
        # ONNX Runtime passes on what the loader and the plugin say, as types of its own.
        reason = f"the plugin does not load: {type(error).__name__}: {error}"
        return Availability(False, reason=reason, fix=_REPAIR, broken=True)
    found = version(DISTRIBUTION)
    if not devices:
        reason = f"{DISTRIBUTION} {found} offers no device on this CPU{_why_not()}"
        return Availability(False, reason=reason, fix='pip install "pytest-quant[openvino]", and backend="openvino"')
    return Availability(True, version=f"{found} in onnxruntime {runtime.version}", device="cpu")


def cpu_devices() -> list[Any]:
    """Register the plugin, unless it is, and return the one CPU device that goes by exactly its name.

    The plugin has siblings, ``OpenVINOExecutionProvider.AUTO`` for one, which cannot be mixed with it.
    """
    import onnxruntime

    try:
        onnxruntime.register_execution_provider_library(PROVIDER, import_module(_PACKAGE).get_library_path())
    except Exception as error:
        # ONNX Runtime's own exceptions have no common base, and it has no way to ask what is registered.
        if _KNOWN_ALREADY not in str(error):
            raise
    kind = onnxruntime.OrtHardwareDeviceType.CPU
    return [one for one in onnxruntime.get_ep_devices() if one.ep_name == PROVIDER and one.device.type == kind][:1]


def _why_not() -> str:
    """Give the reason where it is known: the plugin asks for the maker of a CPU, which OpenVINO itself does not."""
    import onnxruntime

    kind = onnxruntime.OrtHardwareDeviceType.CPU
    makers = {
        one.device.vendor_id: one.device.vendor for one in onnxruntime.get_ep_devices() if one.device.type == kind
    }
    if _INTEL in makers or not makers:
        return ""
    return f" ({', '.join(map(str, makers.values()))}): it takes CPUs made by Intel only"
