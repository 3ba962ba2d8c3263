"""The backends ``ort-cuda`` and ``ort-trt``: whether a GPU provider of ONNX Runtime can run here, and what it offers.

``onnxruntime.get_available_providers()`` lists what a wheel was compiled with. A session that asks for a provider which
then does not load runs on the CPU, and only a native log line says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from pytest_quant.backends.base import Availability, Engine
from pytest_quant.backends.options import check_offer
from pytest_quant.backends.ort import OrtBackend
from pytest_quant.backends.ort.libraries import CUDA, CUDA_OPTIONS, TENSORRT, load_provider, loading_trouble
from pytest_quant.backends.ort.options import parse_options
from pytest_quant.backends.ort.tensorrt import (
    builder_spec,
    target_of,
    uses_table,
    write_float_with_table,
)
from pytest_quant.backends.runtime import WHEELS, driver_too_old, import_runtime, installed_version
from pytest_quant.backends.tf32 import switch_off, with_option
from pytest_quant.backends.trt import TrtRtxBackend
from pytest_quant.backends.trt.gpu.device import installed_tensorrt
from pytest_quant.backends.trt.options import float_type
from pytest_quant.environment.cuda_driver import ORDER_VARIABLE, VISIBLE_VARIABLE, ask_driver
from pytest_quant.environment.gpu import cuda_gpu
from pytest_quant.environment.nvml import has_nvml
from pytest_quant.errors import BackendUnavailable, UsageError
from pytest_quant.spec import EngineSpec

_INSTALL = 'pip uninstall -y onnxruntime && pip install "onnxruntime-gpu[cuda,cudnn]"'
_OLDER_CUDA = "its wheel for CUDA 12: pytest-quant guide gpu"
_DRIVER = "libcuda.so.1"


def find_provider(provider: str) -> Availability:
    """Tell whether `provider` is compiled in, the driver is here, and every library that it needs loads."""
    if find_spec("onnxruntime") is None:
        return Availability(False, reason="onnxruntime-gpu is not installed", fix='pip install "pytest-quant[gpu]"')
    both = [f"{name} {found}" for name in WHEELS if (found := installed_version(name))]
    if len(both) > 1:
        reason = f"{' and '.join(both)} are both installed and overwrite each other's files"
        return Availability(False, reason=reason, fix=f"pip uninstall -y {' '.join(WHEELS)}; {_INSTALL}", broken=True)
    answer = import_runtime(
        "onnxruntime",
        ask=lambda onnxruntime: (onnxruntime, onnxruntime.get_available_providers()),
        install=_INSTALL,
        repair=_INSTALL,
        wheels=("onnxruntime-gpu",),
    )
    if isinstance(answer, Availability):
        return answer
    runtime, compiled = answer
    if provider not in compiled:
        return Availability(False, reason=f"this onnxruntime has no {provider}: it is the CPU wheel", fix=_INSTALL)
    trouble = loading_trouble(_DRIVER)
    if trouble:
        fix = "run it on a machine with an NVIDIA GPU and its driver"
        return Availability(False, reason=f"there is no NVIDIA driver here ({trouble})", fix=fix)
    wheel = f"onnxruntime-gpu {runtime.__version__}"
    if too_old := driver_too_old({wheel: getattr(runtime, "cuda_version", "")}, _OLDER_CUDA):
        return too_old
    if hasattr(runtime, "preload_dlls"):
        runtime.preload_dlls()
    refused = load_provider(provider, Path(str(runtime.__file__)).parent)
    if refused is not None:
        return refused
    if not has_nvml():
        reason = "nvidia-ml-py is not installed, by which records tell one GPU from another"
        return Availability(False, reason=reason, fix='pip install "pytest-quant[gpu]"')
    return _without_device() or Availability(True, version=str(runtime.__version__), device="cuda:0")


def _without_device() -> Availability | None:
    """Return why CUDA has no device here; ``None`` where it has one. Another process asks, once."""
    visible = os.environ.get(VISIBLE_VARIABLE)
    said = ask_driver(visible, os.environ.get(ORDER_VARIABLE))
    if said.uuids:
        return None
    if said.error:
        fix = "nvidia-smi tells whether the driver is whole"
        return Availability(
            False, reason=f"CUDA's driver is here and does not answer: {said.error}", fix=fix, broken=True
        )
    hidden = f": {VISIBLE_VARIABLE}={visible!r} leaves none" if visible is not None else ""
    return Availability(False, reason=f"CUDA has no device here{hidden}", fix="run it on a machine with an NVIDIA GPU")


_HALF = "fp16"


class OrtCudaBackend(OrtBackend):
    """Quantized as for the CPU, run on CUDA: a check of what Q/DQ pairs do to accuracy there; and fp16."""

    name = "ort-cuda"
    device = "cuda:0"
    extras = ("gpu",)
    schemes: Mapping[str, tuple[str | None, ...]] = {"fp32": (None,), "fp16": (None,), "int8": ("static", "qat")}

    def availability(self, spec: EngineSpec | None = None) -> Availability:  # noqa: ARG002
        """Tell whether the GPU wheel, the driver and CUDA's libraries are here and load."""
        return find_provider(CUDA)

    def with_tf32(self, spec: EngineSpec, *, allowed: bool) -> EngineSpec:
        """Return `spec` with the option `tf32`, or without it. Raises `UsageError` where TF32 is switched off."""
        return with_option(spec, allowed=allowed)

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
        """Those of the quantizer, the provider, and TF32 where it is allowed."""
        tf32 = {"TF32": "allowed"} if parse_options(spec.options).tf32 else {}
        return {**super().ingredients(spec), "provider": CUDA, **tf32}

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Write the quantized model, or the one in half precision; a float32 one and one that arrives so stay."""
        if spec.precision != _HALF:
            super().build(spec, calibration, folder)
            return
        from pytest_quant.backends.onnx_files import model_file
        from pytest_quant.backends.ort.build import ENGINE_FILE
        from pytest_quant.backends.trt.half import write_half

        write_half(model_file(spec.model), folder / ENGINE_FILE)

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open a session and prove that its products are on the GPU. Raises `BuildError`."""
        from pytest_quant.backends.ort.build import ENGINE_FILE, engine_file
        from pytest_quant.backends.ort.gpu_engine import OrtGpuEngine
        from pytest_quant.backends.ort.recipe import recipe_of
        from pytest_quant.backends.ort.session import Provider

        asked = parse_options(spec.options)
        providers = (Provider(CUDA, CUDA_OPTIONS | {"use_tf32": str(int(asked.tf32))}),)
        path = folder / ENGINE_FILE if spec.precision == _HALF else engine_file(spec, folder)
        return OrtGpuEngine(spec, path, providers, notes=recipe_of(spec).notes, graphs=asked.cuda_graph)


_SHORT_FLOATS = ("fp16", "bf16")


class OrtTrtBackend(TrtRtxBackend):
    """TensorRT through ONNX Runtime. With a compute capability named, it is built and simulated as by ``trt-rtx``."""

    name = "ort-trt"
    device = "cuda:0"
    extras = ("gpu", "trt10")
    schemes: Mapping[str, tuple[str | None, ...]] = {
        **TrtRtxBackend.schemes,
        **dict.fromkeys(_SHORT_FLOATS, (None,)),
    }

    def before_loading(self, spec: EngineSpec) -> None:
        """Switch TF32 off for the whole process: the provider has no option for it, and has it on (version 1.31).

        What chooses kernels is the builder, which is a process of its own and reads what this one has set.
        """
        if not target_of(spec) and not loading_trouble(_DRIVER):
            switch_off()

    def with_tf32(self, spec: EngineSpec, *, allowed: bool) -> EngineSpec:
        """Return `spec`, whose TF32 is off. Raises `UsageError` where it is to be allowed."""
        if not allowed:
            return with_option(spec, allowed=False)
        raise UsageError(
            "ONNX Runtime's TensorRT provider has no option for TF32, so that it is off for the whole process",
            value="TF32 for backend 'ort-trt'",
            allowed="fp32 with TF32 off, fp16, bf16",
            fix="backend='trt' times FP32 with TF32",
        )

    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Tell whether the provider loads, or for a named target whether a build can be simulated."""
        if spec is None:
            return find_provider(TENSORRT)
        if not target_of(spec):
            self.before_loading(spec)
            return find_provider(TENSORRT)
        floats = float_type(builder_spec(spec))
        if spec.precision in _SHORT_FLOATS or floats == "bf16" or uses_table(spec):
            what = "a table of ranges" if uses_table(spec) else floats
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
        from pytest_quant.backends.ort.options import runtime_version

        ours = {"onnxruntime": runtime_version(), "provider": TENSORRT, "ranges in a table": str(uses_table(spec))}
        if not target_of(spec):
            gpu = cuda_gpu(self.device)
            ours |= {"GPU": "" if gpu is None else f"{gpu.name} ({gpu.sm})", "native TensorRT": installed_tensorrt()}
        return {**super().ingredients(builder_spec(spec)), **ours}

    def tunes(self, spec: EngineSpec) -> bool:
        """Whether the provider's TensorRT builds on the GPU, where it times the kernels; not for a named target."""
        return not target_of(spec)

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Write the checked graph, the table of ranges if one is asked for, and the engines of the provider."""
        if target_of(spec):
            super().build(builder_spec(spec), calibration, folder)
            return
        self.before_loading(spec)
        _require_tensorrt()
        from pytest_quant.backends.ort.tensorrt_build import build_engines
        from pytest_quant.backends.ort.tensorrt_engine import providers_of
        from pytest_quant.backends.trt.build import GRAPH_FILE, write_graph

        if uses_table(spec) and calibration is not None:
            write_float_with_table(builder_spec(spec), calibration, folder)
        else:
            write_graph(builder_spec(spec), calibration, folder)
        graph = folder / GRAPH_FILE
        build_engines(graph, providers_of(spec, graph, folder)[0], folder, f"{spec.id} of {spec.model.name}")

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open a session and prove that its products are on TensorRT. Raises `BuildError`."""
        if target_of(spec):
            from pytest_quant.backends.trt.simulated import SimulatedEngine

            return SimulatedEngine(builder_spec(spec), folder, stands_for="ONNX Runtime's TensorRT provider")
        self.before_loading(spec)
        _require_tensorrt()
        from pytest_quant.backends.ort.tensorrt_engine import OrtTrtEngine

        return OrtTrtEngine(spec, folder)


def _require_tensorrt() -> None:
    """Load what the provider needs: a session would look for it in vain, say so in a log, and run on CUDA."""
    found = find_provider(TENSORRT)
    if not found.available:
        raise BackendUnavailable(f"backend 'ort-trt' cannot run here: {found.reason}", fix=found.fix or None)
