"""The backend ``trt``: TensorRT 10 and 11 on a GPU, and without one its graph built for a named GPU and simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pytest_quant.backends.base import Availability, Engine, Feeds
from pytest_quant.backends.trt.gpu.device import find_native
from pytest_quant.backends.trt.options import parse_options
from pytest_quant.backends.trt.rtx import TrtRtxBackend, rtx_version
from pytest_quant.errors import UsageError
from pytest_quant.spec import EngineSpec

MODULE = "tensorrt"


class TrtBackend(TrtRtxBackend):
    """Native TensorRT where it and a GPU are here.

    Elsewhere a named target (``compute_capability``, which ``--quant-simulate`` adds) is built for by TensorRT-RTX, a
    product of its own with the same parser, and simulated like `trt-rtx`; nothing is judged on its plan. A GPU that is
    here is used whatever target is named.
    """

    name = "trt"
    device = "cuda:0"
    schemes: Mapping[str, tuple[str | None, ...]] = {
        "fp32": (None,),
        "fp16": (None,),
        "bf16": (None,),
        "int8": ("static", "qat"),
    }

    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Tell whether TensorRT and a GPU are here, or `spec` names a target that can be simulated."""
        native = find_native()
        if native.available or spec is None or not _target(spec):
            return native
        if _needs_device(spec):
            reason = f"TensorRT's own calibrator and bf16 need the device; {native.reason}"
            return Availability(False, reason=reason, fix="drop quantization='implicit', or use a machine with a GPU")
        return super().availability(spec)

    def check(self, spec: EngineSpec) -> None:
        """Raise `UsageError` for a precision, scheme, option or calibration that this backend does not know."""
        super().check(spec)
        if not parse_options(self.name, spec.options).implicit:
            return
        if spec.scheme == "qat":
            raise UsageError(
                "a calibrator finds no ranges in a model that arrives with Q/DQ pairs",
                value="quantization='implicit' with scheme='qat'",
                fix="drop quantization='implicit'",
            )
        if spec.scheme == "static" and spec.calibration.method == "percentile":
            raise UsageError(
                "TensorRT has no calibrator for percentiles",
                value="calibration 'percentile' with quantization='implicit'",
                allowed="entropy, minmax",
            )
        if spec.scheme == "static" and spec.exclude:
            raise UsageError(
                "implicit INT8 leaves to TensorRT which layers stay in float",
                value=f"exclude={list(spec.exclude)}",
                fix="drop quantization='implicit': explicit Q/DQ pairs leave named nodes out",
            )

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Model bytes, options, versions, recipe, and the GPU that the plan is for."""
        from pytest_quant.backends.trt.profile import engine_ingredients, implicit_ingredients

        native = find_native()
        if not native.available:
            return engine_ingredients(spec, f"RTX {rtx_version()}")
        ours = implicit_ingredients if _calibrates(spec) else engine_ingredients
        return {**ours(spec, native.version), "GPU": native.device}

    def calibration_ingredients(self, spec: EngineSpec) -> dict[str, str] | None:
        """The part of the ingredients that decides the ranges of activations; ``None`` unless static."""
        if not _calibrates(spec):
            return super().calibration_ingredients(spec)
        from pytest_quant.backends.trt.profile import implicit_ingredients

        native = find_native()
        return {**implicit_ingredients(spec, native.version), "GPU": native.device}

    def calibrate(self, spec: EngineSpec, batches: Callable[[], Iterator[Feeds]], folder: Path) -> None:
        """Write the ranges of activations. Raises `DataError` for no batches or batches that do not fit."""
        if not _calibrates(spec):
            super().calibrate(spec, batches, folder)
            return
        from pytest_quant.backends.trt.build import write_implicit_ranges

        write_implicit_ranges(spec, batches(), folder, module=MODULE)

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Quantize in TensorRT's style unless TensorRT does so itself, check the graph, build. Raises `BuildError`."""
        if not find_native().available:
            super().build(spec, calibration, folder)
            return
        from pytest_quant.backends.trt.build import write_plan

        write_plan(spec, calibration, folder, module=MODULE)

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the plan on the GPU, or the simulation of it. Raises `BuildError`."""
        if find_native().available:
            from pytest_quant.backends.trt.gpu.engine import GpuEngine

            return GpuEngine(spec, folder)
        from pytest_quant.backends.trt.simulated import SimulatedEngine

        return SimulatedEngine(spec, folder, stands_for="TensorRT")


def _target(spec: EngineSpec) -> str | None:
    return parse_options(spec.backend, spec.options).compute_capability


def _calibrates(spec: EngineSpec) -> bool:
    """Whether TensorRT's own calibrator finds the ranges."""
    return spec.scheme == "static" and parse_options(spec.backend, spec.options).implicit


def _needs_device(spec: EngineSpec) -> bool:
    return _calibrates(spec) or spec.precision == "bf16"
