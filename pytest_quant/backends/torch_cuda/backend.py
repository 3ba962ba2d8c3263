"""What PyTorch offers on a GPU, and where each step is done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_quant.backends.base import Availability, Engine
from pytest_quant.backends.offer import check_offer
from pytest_quant.backends.torch import TorchBackend
from pytest_quant.backends.torch.options import parse_options
from pytest_quant.backends.torch_cuda.availability import find_device
from pytest_quant.spec import EngineSpec


class TorchCudaBackend(TorchBackend):
    """Half precision, and int8 weights by torchao; int8 activations are the domain of TensorRT there."""

    name = "torch-cuda"
    device = "cuda:0"
    schemes: Mapping[str, tuple[str | None, ...]] = {
        "fp32": (None,),
        "fp16": (None,),
        "bf16": (None,),
        "int8": ("weight-only",),
    }

    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Tell whether torch is built for CUDA, and a GPU with its driver is here."""
        return find_device(spec)

    def check(self, spec: EngineSpec) -> None:
        """Raise `UsageError` for a precision, scheme or option that this backend does not know."""
        check_offer(spec, self.schemes)
        parse_options(spec.options)

    def refuses_speed(self, spec: EngineSpec) -> None:  # noqa: ARG002
        """Return ``None``: everything offered runs as it would in production."""
        return

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Those of the program; it is compiled for the GPU when it is opened."""
        return {**super().ingredients(spec), "device": "cuda"}

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the program on the GPU; it is compiled for a shape when that is first run."""
        from pytest_quant.backends.torch_cuda.engine import TorchCudaEngine

        return TorchCudaEngine(spec, folder)
