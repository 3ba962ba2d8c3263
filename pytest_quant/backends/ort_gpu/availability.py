"""Whether a GPU provider of ONNX Runtime can run here. Asked of the libraries themselves.

``onnxruntime.get_available_providers()`` lists what a wheel was compiled with. A session that asks for a provider which
then does not load runs on the CPU, and only a native log line says so.
"""

from __future__ import annotations

import ctypes
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from pytest_quant.backends.base import Availability
from pytest_quant.backends.ort.lowest import WHEELS, find_outdated
from pytest_quant.backends.ort.lowest import installed_version as installed
from pytest_quant.environment.gpu import has_nvml

CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
_LIBRARIES = {CUDA: "libonnxruntime_providers_cuda.so", TENSORRT: "libonnxruntime_providers_tensorrt.so"}
_INSTALL = 'pip uninstall -y onnxruntime && pip install "onnxruntime-gpu[cuda,cudnn]"'
_DRIVER = "libcuda.so.1"
_MISSING = re.compile(r"(?P<library>lib[\w.+-]+?\.so[.\d]*): cannot open shared object file")
_NVINFER = re.compile(r"libnvinfer\.so\.(?P<major>\d+)")
_BROKEN_IMPORT = (ImportError, OSError, RuntimeError, AttributeError, ValueError, TypeError, SystemError)


def find_provider(provider: str) -> Availability:
    """Tell whether `provider` is compiled in, the driver is here, and every library that it needs loads."""
    if find_spec("onnxruntime") is None:
        return Availability(False, reason="onnxruntime-gpu is not installed", fix='pip install "pytest-quant[gpu]"')
    both = [f"{name} {found}" for name in WHEELS if (found := installed(name))]
    if len(both) > 1:
        reason = f"{' and '.join(both)} are both installed and overwrite each other's files"
        return Availability(False, reason=reason, fix=f"pip uninstall -y {' '.join(WHEELS)}; {_INSTALL}", broken=True)
    outdated = find_outdated("onnxruntime-gpu")
    if outdated is not None:
        return outdated
    try:
        runtime = import_module("onnxruntime")
        compiled = runtime.get_available_providers()
    except _BROKEN_IMPORT as error:
        reason = f"import fails: {type(error).__name__}: {error}"
        return Availability(False, reason=reason, fix=_INSTALL, broken=True)
    if provider not in compiled:
        return Availability(False, reason=f"this onnxruntime has no {provider}: it is the CPU wheel", fix=_INSTALL)
    trouble = loading_trouble(_DRIVER)
    if trouble:
        fix = "run it on a machine with an NVIDIA GPU and its driver"
        return Availability(False, reason=f"there is no NVIDIA driver here ({trouble})", fix=fix)
    if hasattr(runtime, "preload_dlls"):
        runtime.preload_dlls()
    trouble = loading_trouble(str(Path(str(runtime.__file__)).parent / "capi" / _LIBRARIES[provider]))
    if trouble:
        return _unloadable(provider, trouble)
    if not has_nvml():
        reason = "nvidia-ml-py is not installed, by which records tell one GPU from another"
        return Availability(False, reason=reason, fix='pip install "pytest-quant[gpu]"')
    return Availability(True, version=str(runtime.__version__), device="cuda:0")


def loading_trouble(library: str) -> str:
    """Return what the loader says of `library`, empty when it loads."""
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    return ""


def _unloadable(provider: str, trouble: str) -> Availability:
    """Name the library that is missing, and of TensorRT the version that is wanted and the one that is here."""
    named = _MISSING.search(trouble)
    missing = named["library"] if named else ""
    wanted = _NVINFER.search(missing)
    if wanted is None:
        reason = f"{provider} does not load: {trouble}"
        return Availability(False, reason=reason, fix='pip install "onnxruntime-gpu[cuda,cudnn]"', broken=True)
    major = int(wanted["major"])
    here = installed("tensorrt")
    found = f"TensorRT {here} is installed" if here else "no TensorRT is installed"
    reason = f"{provider} wants {missing}, and {found}"
    return Availability(False, reason=reason, fix=f'pip install "tensorrt<{major + 1}"', broken=bool(here))
