"""The backend ``torch-cuda``: whether PyTorch can run on a GPU here, and what it offers. Loads no runtime by itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_quant.backends.base import Engine
from pytest_quant.backends.offer import Availability
from pytest_quant.backends.runtime import driver_too_old
from pytest_quant.backends.torch import TorchBackend
from pytest_quant.backends.torch.options import CUDA_KEYS, float_type, import_torch
from pytest_quant.environment.gpu import gpu_kind
from pytest_quant.spec import EngineSpec

_INSTALL = "install torch for CUDA, see https://pytorch.org/get-started/locally"
_OLDER_CUDA = _INSTALL.replace("CUDA", "an older CUDA")
DEVICE = "cuda:0"


def find_device(spec: EngineSpec | None) -> Availability:
    """Tell whether torch is built for CUDA and finds a GPU; with `spec`, whether that GPU computes its type."""
    torch = import_torch()
    if isinstance(torch, Availability):
        return torch
    if torch.version.cuda is None:
        return Availability(False, reason=f"torch {torch.__version__} is a build without CUDA", fix=_INSTALL)
    if refused := driver_too_old({f"torch {torch.__version__}": torch.version.cuda}, _OLDER_CUDA):
        return refused
    if not torch.cuda.is_available():
        reason = f"torch {torch.__version__} is built for CUDA {torch.version.cuda} and finds no GPU"
        return Availability(False, reason=reason, fix="run it on a machine with an NVIDIA GPU; nvidia-smi shows it")
    if spec is not None and float_type(spec) == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        name = torch.cuda.get_device_name(0)
        return Availability(False, reason=f"{name} does not compute bf16", fix="use precision='fp16'")
    return Availability(True, version=str(torch.__version__), device=f"cuda:0 {torch.cuda.get_device_name(0)}")


class TorchCudaBackend(TorchBackend):
    """Half precision, and int8 weights by torchao; int8 activations are the domain of TensorRT there."""

    name = "torch-cuda"
    device = DEVICE
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
        return {**super().ingredients(spec), "device": "cuda", "GPU": gpu_kind(self.device)}

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the program on the GPU; it is compiled for a shape when that is first run."""
        from pytest_quant.backends.torch.cuda_engine import TorchCudaEngine

        return TorchCudaEngine(spec, folder)
