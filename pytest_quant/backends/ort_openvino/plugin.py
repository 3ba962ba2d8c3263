"""OpenVINO's plugin for ONNX Runtime: whether it is here, its device, and a session proven to run on it."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_quant.backends.base import Availability
from pytest_quant.backends.ort.backend import find_runtime
from pytest_quant.backends.ort.session import refused
from pytest_quant.backends.ort_gpu.engine import prove_placement
from pytest_quant.errors import BuildError

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


_FATAL = 4
_SETTINGS = {
    "PERFORMANCE_HINT": "LATENCY",
    "INFERENCE_PRECISION_HINT": "f32",
    "NUM_STREAMS": "1",
    "ENABLE_CPU_PINNING": "NO",
}
"""In words of OpenVINO: without the hint a CPU with bfloat16 may run the float reference in it."""


def open_session(path: Path, threads: int, profile: Path | None = None) -> tuple[Any, tuple[str, ...]]:
    """Open the model in `path` on OpenVINO and return the session with what runs on the CPU provider, in words.

    Parameters
    ----------
    profile : a folder; the session then writes into a file there what it and OpenVINO inside it run.

    Raises
    ------
    BuildError : ONNX Runtime or OpenVINO refuses the model, or a product is not on OpenVINO.
    """
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = _FATAL
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    inside = _SETTINGS | {"INFERENCE_NUM_THREADS": str(threads)}
    if profile is not None:
        settings.enable_profiling = True
        settings.profile_file_prefix = str(profile / "run")
    try:
        settings.add_provider_for_devices(cpu_devices(), {"load_config": json.dumps({"CPU": inside})})
        session = onnxruntime.InferenceSession(str(path), settings)
        parts = session.get_provider_graph_assignment_info()
    except Exception as error:
        raise refused(f"the model {path.name}", error) from error
    return session, prove_openvino(parts, path.name)


def prove_openvino(parts: list[Any], name: str) -> tuple[str, ...]:
    """Refuse a product outside OpenVINO, and a graph of which nothing is in it; return notes on harmless nodes.

    Raises
    ------
    BuildError : names the nodes.
    """
    notes = prove_placement(parts, [PROVIDER], name)
    if parts and not any(part.ep_name == PROVIDER for part in parts):
        nodes = [f"{node.name} ({node.op_type})" for part in parts for node in part.get_nodes()]
        raise BuildError(
            f"nothing of {name} runs on {PROVIDER}",
            value="; ".join(nodes[:6]) + (f" and {len(nodes) - 6} more" if len(nodes) > 6 else ""),
            fix="use backend='ort' for it",
        )
    return notes
