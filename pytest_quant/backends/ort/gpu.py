"""The backend ``ort-cuda``: what it offers, and where each step is done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_quant.backends.base import Engine
from pytest_quant.backends.offer import Availability
from pytest_quant.backends.ort import CUDA_KEYS, OrtBackend, parse_options
from pytest_quant.backends.ort.libraries import CUDA, CUDA_OPTIONS, find_provider
from pytest_quant.environment.gpu import gpu_kind
from pytest_quant.errors import UsageError
from pytest_quant.spec import ARRIVING, EngineSpec


class OrtCudaBackend(OrtBackend):
    """Quantized as for the CPU, run on CUDA: a check of what Q/DQ pairs do to accuracy there; and fp16."""

    name = "ort-cuda"
    device = "cuda:0"
    offer = replace(
        OrtBackend.offer,
        precisions={"fp32": (None,), "fp16": (None,), "int8": ("static", *ARRIVING)},
        options=CUDA_KEYS,
        extras=("gpu",),
    )

    def availability(self, spec: EngineSpec | None = None) -> Availability:  # noqa: ARG002
        """Tell whether the GPU wheel, the driver and CUDA's libraries are here and load."""
        return find_provider(CUDA)

    def refuses_speed(self, spec: EngineSpec) -> UsageError | None:
        """Refuse a limit on the speed of INT8: the provider computes Q/DQ graphs in float."""
        if spec.precision != "int8":
            return None
        return UsageError(
            "ort-cuda has no INT8 kernels for convolutions and matrix products in Q/DQ form: it runs them in float, "
            "slower than FP32 by the conversions",
            value="a limit on speed for int8",
            fix="use backend='ort-trt' or 'trt' for speed; here judge accuracy only",
        )

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Those of the quantizer, the provider, the GPU, and TF32 where it is allowed."""
        tf32 = {"TF32": "allowed"} if parse_options(spec.options).tf32 else {}
        return {**super().ingredients(spec), "provider": CUDA, "GPU": gpu_kind(self.device), **tf32}

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open a session and prove that its products are on the GPU. Raises `BuildError`."""
        from pytest_quant.backends.ort.build import engine_file
        from pytest_quant.backends.ort.gpu_engine import OrtGpuEngine
        from pytest_quant.backends.ort.recipe import notes_of
        from pytest_quant.backends.ort.session import Provider

        options = parse_options(spec.options)
        own = CUDA_OPTIONS | {"use_tf32": str(int(options.tf32))}
        providers = (Provider(CUDA, own, libraries=options.libraries),)
        in_float = f"{spec.id} computes in float what its Q/DQ pairs round: it shows accuracy only"
        notes = (*notes_of(spec), in_float) if spec.scheme else notes_of(spec)
        return OrtGpuEngine(spec, engine_file(spec, folder), providers, notes=notes)
