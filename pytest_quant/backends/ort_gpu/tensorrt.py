"""The backend ``ort-trt``: ONNX Runtime's TensorRT provider, on graphs quantized in TensorRT's style."""

from __future__ import annotations

from pathlib import Path

from pytest_quant.backends.base import Availability, Engine
from pytest_quant.backends.ort_gpu.availability import CUDA, TENSORRT, find_provider
from pytest_quant.backends.trt import TrtRtxBackend
from pytest_quant.backends.trt.options import parse_options
from pytest_quant.spec import EngineSpec


class OrtTrtBackend(TrtRtxBackend):
    """TensorRT through ONNX Runtime. With a compute capability named, it is built and simulated as by ``trt-rtx``."""

    name = "ort-trt"
    device = "cuda:0"

    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Tell whether the provider loads, or for a named target whether a build can be simulated."""
        if spec is not None and _target(spec):
            return super().availability(spec)
        return find_provider(TENSORRT)

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Those of the graph and the builder, and ONNX Runtime with its provider."""
        from pytest_quant.backends.ort.runtime import runtime_version

        return {**super().ingredients(spec), "onnxruntime": runtime_version(), "provider": TENSORRT}

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Write the checked Q/DQ graph; the provider builds its engine when the session opens."""
        if _target(spec):
            super().build(spec, calibration, folder)
            return
        from pytest_quant.backends.trt.build import write_graph

        write_graph(spec, calibration, folder)

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open a session and prove that its products are on TensorRT. Raises `BuildError`.

        The provider keys its engines by names and not by weights, so it gets the folder of this very engine.
        """
        from pytest_quant.backends.trt.build import GRAPH_FILE

        if _target(spec):
            return super().open(spec, folder)
        from pytest_quant.backends.ort_gpu.engine import OrtGpuEngine

        options = {
            "trt_engine_cache_enable": "1",
            "trt_engine_cache_path": str(folder),
            "trt_int8_enable": "1" if spec.precision == "int8" else "0",
        }
        providers = ((TENSORRT, options), (CUDA, {"use_tf32": "0"}))
        return OrtGpuEngine(spec, folder / GRAPH_FILE, providers)


def _target(spec: EngineSpec) -> str | None:
    return parse_options(spec.backend, spec.options).compute_capability
