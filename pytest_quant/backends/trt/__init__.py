"""The backends ``trt``: TensorRT on a GPU; and ``trt-rtx``: TensorRT-RTX, which builds for a named GPU without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from pytest_quant.backends.base import Backend, Engine, Feeds
from pytest_quant.backends.cuda.device import find_native
from pytest_quant.backends.offer import Availability, Offer, Remedy
from pytest_quant.backends.runtime import WHEELS, find_outdated, installed_version
from pytest_quant.backends.switchable import SwitchableGraph
from pytest_quant.backends.trt.options import NATIVE_KEYS, QUANTIZER, RTX_KEYS, calibrates, options_of, quantizer_spec
from pytest_quant.environment.gpu import cuda_gpus
from pytest_quant.environment.machine import isa_tier
from pytest_quant.errors import UsageError
from pytest_quant.spec import ARRIVING, EngineSpec


class TrtRtxBackend(Backend):
    """TensorRT-RTX as parser and builder.

    What it builds is judged without the device: the parser's errors, the precision of every layer, the size of the plan
    and the time of the build are real, accuracy is that of a float simulation of exactly the graph that was built.
    """

    name = "trt-rtx"
    offer = Offer(
        {"fp32": (None,), "fp16": (None,), "bf16": (None,), "int8": ("static", *ARRIVING)},
        RTX_KEYS,
        ("minmax", "entropy", "percentile"),
        extras=("trt-rtx",),
        fixed_shapes=True,
    )

    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Tell whether tensorrt_rtx is installed, and for a `spec` whether a GPU to build for is named or here.

        ONNX Runtime quantizes for it, so one that is too old counts too.
        """
        if find_spec("tensorrt_rtx") is None:
            return Availability(
                False, reason="tensorrt-rtx is not installed", fix='pip install "pytest-quant[trt-rtx]"'
            )
        if trouble := quantizer_trouble():
            return trouble
        if spec is not None and options_of(spec).compute_capability is None:
            gpus, reason = cuda_gpus()
            if not gpus:
                fix = "name the GPU to build for: options={'compute_capability': 'SM89'}"
                return Availability(False, reason=f"no GPU is named to build for, and {reason}", fix=fix)
        return Availability(True, version=rtx_version(), device="builds for a named GPU, runs nothing")

    def largest_batch(self, spec: EngineSpec, batch_axes: Mapping[str, int | None]) -> int | None:
        """Return the largest batch that the options allow, ``None`` when they do not say. Raises `ModelError`."""
        from pytest_quant.backends.trt.network import largest_batch

        return largest_batch(spec, self.signature(spec.quantized or spec.model), batch_axes)

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Model bytes, the quantizer's and the builder's options, versions, the target, the recipe, the simulator."""
        from pytest_quant.backends.ort import runtime_version
        from pytest_quant.backends.trt.network import engine_ingredients

        simulator = {"onnxruntime": runtime_version(), "instruction set": isa_tier()}
        return engine_ingredients(spec, rtx_version()) | simulator

    def calibration_ingredients(self, spec: EngineSpec) -> dict[str, str] | None:
        """The part of the ingredients that decides the ranges of activations; ``None`` unless static."""
        return QUANTIZER.calibration_ingredients(quantizer_spec(spec))

    def calibrate(self, spec: EngineSpec, batches: Callable[[], Iterator[Feeds]], folder: Path) -> None:
        """Write the ranges of activations. Raises `DataError` for no batches or batches that do not fit."""
        QUANTIZER.calibrate(quantizer_spec(spec), batches, folder)

    def shares(self, spec: EngineSpec) -> bool:
        """Whether TensorRT builds: TensorRT-RTX builds faster than its engines come through a cache."""
        return self.tunes(spec)

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Quantize in TensorRT's style unless TensorRT does so itself, check the graph, build. Raises `BuildError`."""
        from pytest_quant.backends.trt.build import write_plan

        write_plan(spec, calibration, folder, module="tensorrt" if self.tunes(spec) else "tensorrt_rtx")

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the simulation of what was built. Raises `BuildError`."""
        from pytest_quant.backends.trt.simulated import SimulatedEngine

        return SimulatedEngine(spec, folder)

    def remedies(self, spec: EngineSpec) -> Sequence[Remedy]:
        """Other ways to find ranges: the quantizer has no option left that TensorRT would take."""
        from pytest_quant.backends.ort.recipe import vary_ranges

        return tuple(vary_ranges(spec, len(self.quantized_nodes(spec)))) if spec.scheme == "static" else ()

    def switches(self, spec: EngineSpec, folder: Path, work: Path) -> SwitchableGraph | None:
        """The graph that was built, with its pairs; there are none in one whose ranges TensorRT found itself."""
        return QUANTIZER.switches(quantizer_spec(spec), folder, work)

    def quantized_nodes(self, spec: EngineSpec) -> tuple[str, ...]:
        """The named products."""
        return QUANTIZER.quantized_nodes(quantizer_spec(spec))


def quantizer_trouble() -> Availability | None:
    """Return why ONNX Runtime, which quantizes for TensorRT and simulates it, cannot do so; ``None`` if it can."""
    if find_spec("onnxruntime") is None:
        fix = 'pip install "pytest-quant[ort]", or beside an NVIDIA GPU "pytest-quant[gpu]"'
        return Availability(False, reason="onnxruntime is not installed, which quantizes for TensorRT", fix=fix)
    return find_outdated(*WHEELS)


def rtx_version() -> str:
    """Return the version of TensorRT-RTX, by whichever of its distributions is installed."""
    names = ("tensorrt-rtx", "tensorrt-rtx-cu13", "tensorrt_rtx_cu13_bindings")
    return next((number for name in names if (number := installed_version(name))), "unknown")


class TrtBackend(TrtRtxBackend):
    """Native TensorRT if it and a GPU are here.

    Elsewhere a named target (``compute_capability``, which ``--quant-simulate`` adds) is built for by TensorRT-RTX, a
    product of its own with the same parser, and simulated like `trt-rtx`; nothing is judged on its plan. A GPU that is
    here is used whatever target is named.
    """

    name = "trt"
    device = "cuda:0"
    offer = replace(TrtRtxBackend.offer, options=NATIVE_KEYS, extras=("gpu", "trt"))

    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Tell whether TensorRT and a GPU are here, or `spec` names a target that can be simulated."""
        native = find_native()
        if native.available:
            return quantizer_trouble() or native
        if spec is None or not options_of(spec).compute_capability:
            return native
        if calibrates(spec):
            reason = f"TensorRT's own calibrator needs the device; {native.reason}"
            return Availability(False, reason=reason, fix="drop quantization='implicit', or use a machine with a GPU")
        return super().availability(spec)

    def check(self, spec: EngineSpec) -> None:
        """Raise `UsageError` as `TrtRtxBackend` does, and for what TensorRT's own calibrator does not do."""
        super().check(spec)
        if not options_of(spec).implicit or spec.scheme is None:
            return
        is_percentile = spec.scheme == "static" and spec.calibration.method == "percentile"
        if spec.scheme in ARRIVING or is_percentile or spec.exclude:
            ruled_out = "calibration='percentile'" if is_percentile else f"exclude={list(spec.exclude)}"
            raise UsageError(
                "TensorRT's own calibrator chooses ranges and the layers that stay in float",
                value=f"scheme='{spec.scheme}'" if spec.scheme in ARRIVING else ruled_out,
                allowed="scheme 'static' by entropy or minmax, no exclude",
                fix="drop quantization='implicit': Q/DQ pairs do all of it",
            )

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Model bytes, options, versions, recipe, and the GPU that the plan is for."""
        from pytest_quant.backends.trt.network import engine_ingredients

        native = find_native()
        if not native.available:
            return super().ingredients(spec) | {"TensorRT": f"RTX {rtx_version()}"}
        return {**engine_ingredients(spec, native.version), "GPU": native.device}

    def calibration_ingredients(self, spec: EngineSpec) -> dict[str, str] | None:
        """The part of the ingredients that decides the ranges of activations; ``None`` unless static."""
        # Its plan depends on nothing more than what the calibrator finds.
        return self.ingredients(spec) if calibrates(spec) else super().calibration_ingredients(spec)

    def calibrate(self, spec: EngineSpec, batches: Callable[[], Iterator[Feeds]], folder: Path) -> None:
        """Write the ranges of activations. Raises `DataError` for no batches or batches that do not fit."""
        if not calibrates(spec):
            super().calibrate(spec, batches, folder)
            return
        from pytest_quant.backends.trt.build import write_implicit_ranges

        write_implicit_ranges(spec, batches(), folder, module="tensorrt")

    def tunes(self, spec: EngineSpec) -> bool:  # noqa: ARG002
        """Whether TensorRT builds on this machine's GPU and times its kernels; TensorRT-RTX does not."""
        return find_native().available

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the plan on the GPU, or the simulation of it. Raises `BuildError`."""
        if find_native().available:
            from pytest_quant.backends.trt.engine import GpuEngine

            return GpuEngine(spec, folder)
        from pytest_quant.backends.trt.simulated import SimulatedEngine

        return SimulatedEngine(spec, folder, stands_for="TensorRT")
