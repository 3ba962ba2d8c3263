"""Whether PyTorch can run on a GPU here."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from pytest_quant.backends.base import Availability
from pytest_quant.backends.torch.availability import import_torch
from pytest_quant.backends.torch.options import float_type, parse_options
from pytest_quant.spec import EngineSpec

_INSTALL = "install torch for CUDA, see https://pytorch.org/get-started/locally"


def find_device(spec: EngineSpec | None) -> Availability:
    """Tell whether torch is built for CUDA and finds a GPU; with `spec`, whether that GPU computes its type."""
    trouble = import_torch()
    if trouble is not None:
        return trouble
    torch = import_module("torch")
    version = str(torch.__version__)
    if torch.version.cuda is None:
        return Availability(False, reason=f"torch {version} is a build without CUDA", fix=_INSTALL)
    if not torch.cuda.is_available():
        reason = f"torch {version} is built for CUDA {torch.version.cuda} and finds no GPU"
        return Availability(False, reason=reason, fix="run it on a machine with an NVIDIA GPU; nvidia-smi shows it")
    if spec is not None and float_type(spec) == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        name = torch.cuda.get_device_name(0)
        return Availability(False, reason=f"{name} does not compute bf16", fix="use precision='fp16'")
    if spec is not None and parse_options(spec.options).compiled and find_spec("triton") is None:
        reason = "Inductor compiles for a GPU with triton, and triton is not installed"
        return Availability(False, reason=reason, fix="pip install triton, or options={'compiled': False}")
    return Availability(True, version=version, device=f"cuda:0 {torch.cuda.get_device_name(0)}")
