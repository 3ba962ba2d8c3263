"""The native libraries of ONNX Runtime's GPU providers: whether they load here.

The library of a provider has no run path: it finds what the system knows, or what this process has loaded by then. The
libraries of TensorRT's wheels are loaded by importing ``tensorrt``.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from pytest_quant.backends.base import Availability
from pytest_quant.backends.trt.gpu.device import probe_native
from pytest_quant.environment.gpu import cuda_gpus

CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
CUDA_OPTIONS = {"device_id": "0", "use_tf32": "0"}
"""TF32 off: with it the FP32 reference would round its inputs to ten bits."""

_LIBRARIES = {CUDA: "libonnxruntime_providers_cuda.so", TENSORRT: "libonnxruntime_providers_tensorrt.so"}
_MISSING = re.compile(r"(?P<library>lib[\w.+-]+?\.so[.\d]*): cannot open shared object file")
_NVINFER = re.compile(r"libnv(?:infer|onnxparser)\w*\.so\.(?P<major>\d+)")


def loading_trouble(library: str) -> str:
    """Return the loader's error for `library`; empty when it loads."""
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    return ""


def load_provider(provider: str, runtime: Path) -> Availability | None:
    """Load the library of a provider, and TensorRT's own before it where it wants them.

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
    trouble = loading_trouble(library)
    wanted = _wanted_tensorrt(trouble)
    if wanted is not None:
        refused = _load_tensorrt(provider, *wanted)
        if refused is not None:
            return refused
        trouble = loading_trouble(library)
    if not trouble:
        return None
    reason = f"{provider} does not load: {trouble}"
    return Availability(False, reason=reason, fix='pip install "onnxruntime-gpu[cuda,cudnn]"', broken=True)


def _wanted_tensorrt(trouble: str) -> tuple[str, int] | None:
    """Return TensorRT's library that the loader did not find, and its major version; ``None`` for other trouble."""
    named = _MISSING.search(trouble)
    found = None if named is None else _NVINFER.fullmatch(named["library"])
    return None if found is None else (found[0], int(found["major"]))


def _load_tensorrt(provider: str, library: str, major: int) -> Availability | None:
    """Import ``tensorrt``, which loads its libraries, or return why that is no use.

    A wheel that does not fit the machine may end the process that imports it, so another one does so first.
    """
    wants = f"{provider} wants {library}, and"
    fix = f'pip install "tensorrt<{major + 1}"'
    if find_spec("tensorrt") is None:
        return Availability(False, reason=f"{wants} no TensorRT is installed", fix=fix)
    found = probe_native(with_device=bool(cuda_gpus().gpus))
    if not found.available:
        return replace(found, reason=f"{wants} {found.reason}")
    if found.version.partition(".")[0] != str(major):
        return Availability(False, reason=f"{wants} TensorRT {found.version} is installed", fix=fix, broken=True)
    import_module("tensorrt")
    return None
