"""The providers of ONNX Runtime that are native libraries: whether they can run here, and what is missing if not.

``onnxruntime.get_available_providers()`` lists what a wheel was compiled with. A session that asks for a provider which
then does not load runs on the CPU, and only a native log line says so.

The library of a provider has no run path: it finds what the system knows, or what this process has loaded by then. The
libraries of TensorRT's wheels are loaded by importing ``tensorrt``.
"""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from pytest_quant.backends.cuda.device import probe_native
from pytest_quant.backends.offer import Availability
from pytest_quant.backends.runtime import WHEELS, driver_too_old, import_runtime, installed_version
from pytest_quant.environment.cuda_driver import VISIBLE_VARIABLE, ask_driver
from pytest_quant.environment.gpu import cuda_gpus

CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
CUDA_OPTIONS = {"device_id": "0", "use_tf32": "0"}
"""TF32 off: with it the FP32 reference would round its inputs to ten bits."""

# All of them go first: pip leaves what is installed as it is, and each wheel writes over files of the other.
_INSTALL = f'pip uninstall -y {" ".join(WHEELS)} && pip install "onnxruntime-gpu[cuda,cudnn]"'
_APART = 'in an environment of its own, because it replaces the wheel for CPUs: pip install "pytest-quant[gpu]"'
DRIVER = "libcuda.so.1"
_LIBRARIES = {CUDA: "libonnxruntime_providers_cuda.so", TENSORRT: "libonnxruntime_providers_tensorrt.so"}
_NVINFER = re.compile(r"(?P<library>libnv(?:infer|onnxparser)\w*\.so\.(?P<major>\d+)): cannot open shared object file")
"""The loader's words for a library of TensorRT that it did not find."""


def find_provider(provider: str) -> Availability:
    """Tell whether the driver is here, `provider` is compiled in, and every library that it needs loads."""
    both = [f"{name} {number}" for name in WHEELS if (number := installed_version(name))]
    if len(both) > 1:
        reason = f"{' and '.join(both)} are both installed and overwrite each other's files"
        return Availability(False, reason=reason, fix=_INSTALL, broken=True)
    answer = import_runtime(
        "onnxruntime",
        ask=lambda onnxruntime: (onnxruntime, onnxruntime.get_available_providers()),
        install='pip install "pytest-quant[gpu]"',
        repair=_INSTALL,
        wheels=("onnxruntime-gpu",),
    )
    if isinstance(answer, Availability):
        return answer
    runtime, compiled = answer
    # First, because without a driver the wheel for GPUs is no use in place of the one that is here.
    if trouble := find_loading_error(DRIVER):
        fix = "run it on a machine with an NVIDIA GPU and its driver"
        return Availability(False, reason=f"there is no NVIDIA driver here ({trouble})", fix=fix)
    if provider not in compiled:
        return Availability(False, reason=f"this onnxruntime has no {provider}: it is the CPU wheel", fix=_APART)
    wheel, older = f"onnxruntime-gpu {runtime.__version__}", "its wheel for CUDA 12: pytest-quant guide gpu"
    if too_old := driver_too_old({wheel: getattr(runtime, "cuda_version", "")}, older):
        return too_old
    if hasattr(runtime, "preload_dlls"):
        runtime.preload_dlls()
    if refused := load_provider(provider, Path(str(runtime.__file__)).parent):
        return refused
    return _explain_missing_device() or Availability(True, version=str(runtime.__version__), device="cuda:0")


def _explain_missing_device() -> Availability | None:
    """Return why CUDA has no device here; ``None`` if it has a device. Another process asks, once."""
    visible = os.environ.get(VISIBLE_VARIABLE)
    uuids, error = ask_driver(visible)
    if uuids:
        return None
    if error:
        fix = "nvidia-smi shows whether the driver is whole"
        return Availability(False, reason=f"CUDA's driver is here and does not answer: {error}", fix=fix, broken=True)
    hidden = f": {VISIBLE_VARIABLE}={visible!r} leaves none" if visible is not None else ""
    return Availability(False, reason=f"CUDA has no device here{hidden}", fix="run it on a machine with an NVIDIA GPU")


def find_loading_error(library: str) -> str:
    """Return the loader's error for `library`; empty when it loads."""
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    return ""


def load_provider(provider: str, runtime: Path) -> Availability | None:
    """Load the library of a provider; a provider that needs TensorRT gets its libraries first.

    Parameters
    ----------
    provider : `CUDA` or `TENSORRT`.
    runtime : the folder of the package ``onnxruntime``, which is imported: its libraries want symbols that the import
        brings.

    Returns
    -------
    ``None`` when it is loaded; else why not, with the library that is missing, and of TensorRT the version that is
    wanted and the one that is here.
    """
    library = str(runtime / "capi" / _LIBRARIES[provider])
    trouble = find_loading_error(library)
    if wanted := _NVINFER.search(trouble):
        if refused := _load_tensorrt(provider, wanted["library"], int(wanted["major"])):
            return refused
        trouble = find_loading_error(library)
    if not trouble:
        return None
    reason = f"{provider} does not load: {trouble}"
    return Availability(False, reason=reason, fix='pip install "onnxruntime-gpu[cuda,cudnn]"', broken=True)


def _load_tensorrt(provider: str, library: str, major: int) -> Availability | None:
    """Import ``tensorrt``, which loads its libraries, or return why that is no use.

    A wheel that does not fit the machine may end the process that imports it, so another one does so first.
    """
    wants = f"{provider} wants {library}, and"
    fix = f'pip install "tensorrt<{major + 1}"'
    if find_spec("tensorrt") is None:
        return Availability(False, reason=f"{wants} no TensorRT is installed", fix=fix)
    probed = probe_native(with_device=bool(cuda_gpus()[0]))
    if not probed.available:
        return replace(probed, reason=f"{wants} {probed.reason}")
    if probed.version.partition(".")[0] != str(major):
        return Availability(False, reason=f"{wants} TensorRT {probed.version} is installed", fix=fix, broken=True)
    import_module("tensorrt")
    return None
