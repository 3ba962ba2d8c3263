"""Whether ONNX Runtime is here, and whole."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from pytest_quant.backends.base import Availability
from pytest_quant.backends.ort.lowest import WHEELS, find_outdated

_INSTALL = 'pip install "pytest-quant[ort]"'
_REPAIR = "pip install --force-reinstall onnxruntime onnx"
_BROKEN_IMPORT = (ImportError, OSError, RuntimeError, AttributeError, ValueError, TypeError, SystemError)
"""What a package that is installed and does not load raises: a missing library, another numpy, half an upgrade."""


def find_runtime() -> Availability:
    """Tell whether onnxruntime and onnx are installed, new enough, load, and hold what they should."""
    missing = [name for name in ("onnxruntime", "onnx") if not _is_installed(name)]
    if missing:
        return Availability(False, reason=f"{' and '.join(missing)} not installed", fix=_INSTALL)
    outdated = find_outdated(*WHEELS)
    if outdated is not None:
        return outdated
    try:
        runtime = import_module("onnxruntime")
        import_module("onnx")
    except _BROKEN_IMPORT as error:
        return Availability(
            False, reason=f"import fails: {type(error).__name__}: {error}", fix=_REPAIR, device="", broken=True
        )
    if not hasattr(runtime, "InferenceSession"):
        reason = "onnxruntime is an empty folder without InferenceSession, as left by uninstalling onnxruntime-gpu"
        return Availability(False, reason=reason, fix=_REPAIR, broken=True)
    return Availability(True, version=str(runtime.__version__), device="cpu")


def _is_installed(name: str) -> bool:
    """A module that is loaded without a spec counts: then it is its content that is looked at."""
    try:
        return find_spec(name) is not None
    except ValueError:
        return True
