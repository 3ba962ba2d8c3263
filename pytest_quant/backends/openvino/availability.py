"""Whether OpenVINO and NNCF are here, and load."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec

from pytest_quant.backends.base import Availability

_INSTALL = 'pip install "pytest-quant[openvino]"'
_REPAIR = "pip install --force-reinstall openvino nncf"
_BROKEN_IMPORT = (ImportError, OSError, RuntimeError, AttributeError, ValueError, TypeError, SystemError)
"""What a package that is installed and does not load raises."""


def find_runtime() -> Availability:
    """Tell whether openvino, nncf and onnx are installed, and openvino has its CPU plugin.

    NNCF takes seconds to import, so it is only looked for.
    """
    missing = [name for name in ("openvino", "nncf", "onnx") if find_spec(name) is None]
    if missing:
        return Availability(False, reason=f"{' and '.join(missing)} not installed", fix=_INSTALL)
    try:
        devices = import_module("openvino").Core().available_devices
    except _BROKEN_IMPORT as error:
        reason = f"import fails: {type(error).__name__}: {error}"
        return Availability(False, reason=reason, fix=_REPAIR, broken=True)
    if "CPU" not in devices:
        return Availability(False, reason=f"OpenVINO has no CPU plugin, only {devices}", fix=_REPAIR, broken=True)
    return Availability(True, version=version("openvino"), device="cpu")
