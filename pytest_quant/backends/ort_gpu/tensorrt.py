"""The backend ``ort-trt``: ONNX Runtime's TensorRT provider, on graphs quantized in TensorRT's style."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_quant.backends.base import Availability, Engine
from pytest_quant.backends.offer import check_offer
from pytest_quant.backends.ort_gpu.availability import CUDA, TENSORRT, find_provider
from pytest_quant.backends.ort_gpu.trt_options import (
    builder_spec,
    profile_options,
    provider_options,
    target_of,
    uses_table,
)
from pytest_quant.backends.trt import TrtRtxBackend
from pytest_quant.errors import UsageError
from pytest_quant.spec import EngineSpec

_SHORT_FLOATS = ("fp16", "bf16")


class OrtTrtBackend(TrtRtxBackend):
    """TensorRT through ONNX Runtime. With a compute capability named, it is built and simulated as by ``trt-rtx``."""

    name = "ort-trt"
    device = "cuda:0"
    schemes: Mapping[str, tuple[str | None, ...]] = {
        **TrtRtxBackend.schemes,
        **dict.fromkeys(_SHORT_FLOATS, (None,)),
    }

    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Tell whether the provider loads, or for a named target whether a build can be simulated."""
        if spec is None or not target_of(spec):
            return find_provider(TENSORRT)
        if spec.precision in _SHORT_FLOATS or uses_table(spec):
            what = "a table of ranges" if uses_table(spec) else spec.precision
            fix = "run it on a machine with an NVIDIA GPU, or judge int8 from Q/DQ pairs here"
            return Availability(False, reason=f"the simulation computes Q/DQ pairs and float32, not {what}", fix=fix)
        return super().availability(builder_spec(spec))

    def check(self, spec: EngineSpec) -> None:
        """Raise `UsageError` for a precision, scheme, option or calibration that this backend does not know."""
        if uses_table(spec) and spec.exclude:
            raise UsageError(
                "a table of ranges leaves no node in float: TensorRT chooses, by what is faster",
                value=f"exclude={list(spec.exclude)}",
                fix="drop options={'ranges': 'table'}: Q/DQ pairs say which nodes are quantized",
            )
        check_offer(spec, self.schemes)
        super().check(builder_spec(spec))

    def largest_batch(self, spec: EngineSpec, batch_axes: Mapping[str, int | None]) -> int | None:
        """Return the largest batch that the options allow, ``None`` when they do not say. Raises `ModelError`."""
        return super().largest_batch(builder_spec(spec), batch_axes)

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Those of the graph and the builder, and ONNX Runtime with its provider."""
        from pytest_quant.backends.ort.runtime import runtime_version

        ours = {"onnxruntime": runtime_version(), "provider": TENSORRT, "ranges in a table": str(uses_table(spec))}
        return {**super().ingredients(builder_spec(spec)), **ours}

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Write the checked graph, and the table of ranges if one is asked for.

        The provider builds its engine when the session opens.
        """
        from pytest_quant.backends.trt.build import write_graph

        if target_of(spec):
            super().build(builder_spec(spec), calibration, folder)
        elif uses_table(spec) and calibration is not None:
            from pytest_quant.backends.ort_gpu.trt_implicit import write_float_with_table

            write_float_with_table(builder_spec(spec), calibration, folder)
        else:
            write_graph(builder_spec(spec), calibration, folder)

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open a session and prove that its products are on TensorRT. Raises `BuildError`."""
        from pytest_quant.backends.trt.build import GRAPH_FILE

        if target_of(spec):
            from pytest_quant.backends.trt.simulated import SimulatedEngine

            return SimulatedEngine(builder_spec(spec), folder, stands_for="ONNX Runtime's TensorRT provider")
        from pytest_quant.backends.onnx_files import read_signature
        from pytest_quant.backends.ort_gpu.engine import OrtGpuEngine
        from pytest_quant.backends.trt.profile import profile_of

        profile = profile_of(builder_spec(spec), read_signature(folder / GRAPH_FILE))
        shapes, notes = profile_options({**profile.shapes, **profile.values})
        providers = (
            (TENSORRT, provider_options(spec, folder) | shapes),
            (CUDA, {"device_id": "0", "use_tf32": "0"}),
        )
        return OrtGpuEngine(spec, folder / GRAPH_FILE, providers, notes)
