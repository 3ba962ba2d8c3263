"""The backend ``torch-cuda``: whether PyTorch can run on a GPU here, and what it offers. Loads no runtime by itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_quant.backends.base import Engine
from pytest_quant.backends.offer import Availability
from pytest_quant.backends.runtime import driver_too_old
from pytest_quant.backends.torch import CUDA_KEYS, TorchBackend, float_type, import_torch
from pytest_quant.environment.gpu import gpu_kind
from pytest_quant.spec import EngineSpec

_INSTALL = "install torch for CUDA, see https://pytorch.org/get-started/locally"
DEVICE = "cuda:0"


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
        """Tell whether torch is built for CUDA and finds a GPU; with `spec`, whether that GPU computes its type."""
        torch = import_torch()
        if isinstance(torch, Availability):
            return torch
        release, cuda = torch.__version__, torch.version.cuda
        if cuda is None:
            return Availability(False, reason=f"torch {release} is a build without CUDA", fix=_INSTALL)
        if refused := driver_too_old({f"torch {release}": cuda}, _INSTALL.replace("CUDA", "an older CUDA")):
            return refused
        if not torch.cuda.is_available():
            reason = f"torch {release} is built for CUDA {cuda} and finds no GPU"
            return Availability(False, reason=reason, fix="run it on a machine with an NVIDIA GPU; nvidia-smi shows it")
        name = torch.cuda.get_device_name(0)
        narrow = spec is not None and float_type(spec) == "bf16"
        if narrow and not torch.cuda.is_bf16_supported(including_emulation=False):
            return Availability(False, reason=f"{name} does not compute bf16", fix="use precision='fp16'")
        return Availability(True, version=str(release), device=f"{DEVICE} {name}")

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Those of the program; it is compiled for the GPU when it is opened."""
        return {**super().ingredients(spec), "device": "cuda", "GPU": gpu_kind(self.device)}

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the program on the GPU; it is compiled for a shape when that is first run."""
        from pytest_quant.backends.torch.engine import TorchCudaEngine

        return TorchCudaEngine(spec, folder)
