"""The backend ``torch-cuda``: whether PyTorch can run on a GPU here, what it offers, where each step is done."""

from __future__ import annotations

import os
import shutil
import sysconfig
from dataclasses import replace
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

from pytest_quant.backends.base import Engine
from pytest_quant.backends.offer import Availability
from pytest_quant.backends.runtime import driver_too_old
from pytest_quant.backends.torch import TorchBackend
from pytest_quant.backends.torch.options import CUDA_KEYS, float_type, import_torch, parse_options
from pytest_quant.environment.gpu import has_nvml
from pytest_quant.environment.packages import version
from pytest_quant.spec import EngineSpec

_INSTALL = "install torch for CUDA, see https://pytorch.org/get-started/locally"
_OLDER_CUDA = _INSTALL.replace("CUDA", "an older CUDA")


def find_device(spec: EngineSpec | None) -> Availability:
    """Tell whether torch is built for CUDA and finds a GPU; with `spec`, whether that GPU computes its type."""
    cuda = _cuda_of_build()
    if cuda is None:
        return Availability(False, reason=f"torch {version('torch')} is a build without CUDA", fix=_INSTALL)
    if cuda and (refused := driver_too_old({f"torch {version('torch')}": cuda}, _OLDER_CUDA)):
        return refused
    torch = import_torch()
    if isinstance(torch, Availability):
        return torch
    if not torch.cuda.is_available():
        reason = f"torch {torch.__version__} is built for CUDA {torch.version.cuda} and finds no GPU"
        return Availability(False, reason=reason, fix="run it on a machine with an NVIDIA GPU; nvidia-smi shows it")
    if spec is not None and float_type(spec) == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        name = torch.cuda.get_device_name(0)
        return Availability(False, reason=f"{name} does not compute bf16", fix="use precision='fp16'")
    if spec is not None and parse_options(spec.options).compiled and (missing := _missing_for_triton()):
        reason = f"Inductor compiles for a GPU with triton, and {missing[0]} is not here"
        return Availability(False, reason=reason, fix=f"{missing[1]}, or options={{'compiled': False}}")
    if not has_nvml():
        reason = "nvidia-ml-py is not installed, by which records tell one GPU from another"
        return Availability(False, reason=reason, fix="pip install nvidia-ml-py")
    return Availability(True, version=str(torch.__version__), device=f"cuda:0 {torch.cuda.get_device_name(0)}")


def _missing_for_triton() -> tuple[str, str] | None:
    """Return what is not here of triton and of what it compiles its own module for the driver with, and the fix."""
    if find_spec("triton") is None:
        return "triton", "pip install triton"
    if not os.environ.get("CC") and not any(map(shutil.which, ("gcc", "clang"))):
        return "a C compiler, gcc or clang, for its launcher", "apt-get install gcc, or set CC"
    # As triton does: the default scheme of Debian names a folder for headers that nothing fills.
    header = Path(sysconfig.get_path("include", "posix_prefix"), "Python.h")
    return None if header.is_file() else (f"{header} for its launcher", "apt-get install python3-dev")


def _cuda_of_build() -> str | None:
    """Read the CUDA that torch was built for in its small file ``version.py``, since torch takes seconds to import.

    ``None`` for a build without CUDA, empty where that file does not tell.
    """
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        return ""
    spec = spec_from_file_location("torch_build", Path(torch.origin).with_name("version.py"))
    if spec is None or spec.loader is None or not Path(str(spec.origin)).exists():
        return ""
    build = module_from_spec(spec)
    spec.loader.exec_module(build)
    return getattr(build, "cuda", "")


class TorchCudaBackend(TorchBackend):
    """Half precision, and int8 weights by torchao; int8 activations are the domain of TensorRT there."""

    name = "torch-cuda"
    device = "cuda:0"
    offer = replace(
        TorchBackend.offer,
        precisions={"fp32": (None,), "fp16": (None,), "bf16": (None,), "int8": ("weight-only",)},
        options=CUDA_KEYS,
        calibrations=(),
        extras=("gpu", "torch-cuda"),
    )

    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Tell whether torch is built for CUDA, and a GPU with its driver is here."""
        return find_device(spec)

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Those of the program; it is compiled for the GPU when it is opened."""
        return {**super().ingredients(spec), "device": "cuda"}

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the program on the GPU; it is compiled for a shape when that is first run."""
        from pytest_quant.backends.torch.cuda_engine import TorchCudaEngine

        return TorchCudaEngine(spec, folder)
