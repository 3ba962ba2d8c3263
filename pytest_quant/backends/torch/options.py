"""Whether PyTorch and torchao are here, and the options of this backend."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_quant.backends.offer import Availability, checked
from pytest_quant.backends.runtime import import_runtime, quiet
from pytest_quant.environment.machine import has_vnni, onednn_tier
from pytest_quant.readers import FLAG, count, keys_of, one_of, option
from pytest_quant.spec import EngineSpec

torch_quiet = partial(quiet, "torch", "torch.__trace", "torchao", "onnxscript", "onnx_ir")
"""Keeps the noise of exporters and compilers off the screen, see `quiet`."""

_INSTALL = 'pip install "pytest-quant[torch]"'
_REPAIR = "pip install --force-reinstall torch torchao"


def find_runtime() -> Availability:
    """Tell whether torch, torchao and a C++ compiler are here; torchao takes seconds to import and is looked for."""
    torch = import_torch()
    if isinstance(torch, Availability):
        return torch
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        reason = "Inductor compiles with a C++ compiler, and g++ is not on the PATH"
        return Availability(False, reason=reason, fix="apt-get install g++, or set CXX")
    return Availability(True, version=str(torch.__version__), device="cpu")


def import_torch() -> Any:
    """Return the module torch, or an `Availability` that gives the reason why it or torchao cannot be used."""
    return import_runtime("torch", ask=lambda torch: torch, install=_INSTALL, repair=_REPAIR, needs=("torchao",))


@dataclass(frozen=True, slots=True)
class TorchOptions:
    """Options as asked; ``None`` leaves the choice to the machine."""

    threads: int = option(1, count(), "threads of PyTorch, for the whole process")
    compiled: bool = option(True, FLAG, "compile with Inductor; with False an int8 model is a float simulation")
    reduce_range: bool | None = option(None, FLAG, "7-bit activations; default True on x86 without VNNI")
    dtype: str = option("fp32", one_of("fp32", "bf16", "fp16"), "weight-only: what the rest is computed in")
    tf32: bool = option(False, FLAG, "`torch-cuda`: float32 products may round their inputs to ten bits")

    @property
    def seven_bits(self) -> bool:
        """Whether ranges are reduced: where kernels add in 16 bits, unless the user sets it."""
        return not has_vnni(onednn_tier()) if self.reduce_range is None else self.reduce_range


CUDA_KEYS = keys_of(TorchOptions)
CPU_KEYS = {name: key for name, key in CUDA_KEYS.items() if name != "tf32"}


def parse_options(options: Iterable[tuple[str, object]]) -> TorchOptions:
    """Turn the options of a mark into `TorchOptions`. Raises `UsageError`."""
    return TorchOptions(**checked("torch-cuda", options, CUDA_KEYS))


def float_type(spec: EngineSpec) -> str:
    """Return the floating type that an engine computes in: ``fp32``, ``bf16`` or ``fp16``."""
    if spec.precision in ("bf16", "fp16"):
        return spec.precision
    return parse_options(spec.options).dtype if spec.scheme == "weight-only" else "fp32"
