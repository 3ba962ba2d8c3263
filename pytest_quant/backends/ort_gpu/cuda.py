"""The backend ``ort-cuda``: ONNX Runtime's CUDA provider."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_quant.backends.base import Availability, Engine
from pytest_quant.backends.ort import OrtBackend
from pytest_quant.backends.ort_gpu.availability import CUDA, find_provider
from pytest_quant.errors import UsageError
from pytest_quant.spec import EngineSpec

PROVIDERS = ((CUDA, {"device_id": "0", "use_tf32": "0"}),)
"""TF32 off: with it the FP32 reference would round its inputs to ten bits."""


class OrtCudaBackend(OrtBackend):
    """Quantized as for the CPU, run on CUDA: a check of what Q/DQ pairs do to accuracy there."""

    name = "ort-cuda"
    device = "cuda:0"
    schemes: Mapping[str, tuple[str | None, ...]] = {"fp32": (None,), "int8": ("static", "qat")}

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
        """Those of the quantizer, and the provider."""
        return {**super().ingredients(spec), "provider": CUDA}

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open a session and prove that its products are on the GPU. Raises `BuildError`."""
        from pytest_quant.backends.ort.build import engine_file
        from pytest_quant.backends.ort.recipe import recipe_of
        from pytest_quant.backends.ort_gpu.engine import OrtGpuEngine

        return OrtGpuEngine(spec, engine_file(spec, folder), PROVIDERS, recipe_of(spec).notes)
