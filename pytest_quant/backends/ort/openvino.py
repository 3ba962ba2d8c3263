"""The backend ``ort-openvino``: the quantized files of ``ort``, run by OpenVINO's plugin for ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_quant.backends.base import Availability, Engine
from pytest_quant.backends.options import checked
from pytest_quant.backends.ort import OrtBackend, find_runtime
from pytest_quant.backends.ort.options import KEYS
from pytest_quant.environment import onednn_tier
from pytest_quant.environment.packages import version
from pytest_quant.errors import UsageError
from pytest_quant.spec import EngineSpec

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
        # ONNX Runtime raises the errors of the loader and of the plugin as types of its own.
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


_KEYS = {name: key for name, key in KEYS.items() if name != "provider"}


class OrtOpenVinoBackend(OrtBackend):
    """ONNX Runtime with its OpenVINO plugin on the CPU, pinned to float32 where it is not quantized."""

    name = "ort-openvino"
    extras = ("ort-openvino",)
    schemes: Mapping[str, tuple[str | None, ...]] = {"fp32": (None,), "int8": ("static", "qat")}

    def availability(self, spec: EngineSpec | None = None) -> Availability:  # noqa: ARG002
        """Tell whether onnxruntime and the plugin are installed, load, and offer this CPU."""
        return find_plugin()

    def check(self, spec: EngineSpec) -> None:
        """Raise `UsageError` for a precision, scheme, option or calibration that this backend does not know."""
        if "provider" in dict(spec.options):
            raise UsageError(
                f"backend '{self.name}' runs on {PROVIDER} and nothing else",
                value=f"provider={dict(spec.options)['provider']!r}",
                fix="drop the option; backend='ort' runs on the CPU provider",
            )
        checked(self.name, spec.options, _KEYS)
        super().check(spec)

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Those of the quantizer, and the provider."""
        ours = {"provider": f"{PROVIDER} {version(DISTRIBUTION)}", "instruction set": onednn_tier()}
        return {**super().ingredients(spec), **ours}

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open a session and prove that its products are on OpenVINO. Raises `BuildError`."""
        from pytest_quant.backends.ort.openvino_engine import open_engine

        return open_engine(spec, folder)
