"""The backend ``ort-trt``: TensorRT as a provider of ONNX Runtime; what it offers, and where each step is done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_quant.backends.base import Engine
from pytest_quant.backends.cuda.device import installed_tensorrt
from pytest_quant.backends.offer import Availability, switch_off
from pytest_quant.backends.ort.libraries import DRIVER, TENSORRT, find_loading_error, find_provider
from pytest_quant.backends.trt import TrtRtxBackend
from pytest_quant.backends.trt.options import PROVIDER_KEYS, options_of
from pytest_quant.environment.gpu import cuda_gpu
from pytest_quant.errors import BackendUnavailable
from pytest_quant.spec import EngineSpec


class OrtTrtBackend(TrtRtxBackend):
    """TensorRT through ONNX Runtime. With a compute capability named, it is built and simulated as by ``trt-rtx``."""

    name = "ort-trt"
    device = "cuda:0"
    offer = replace(TrtRtxBackend.offer, options=PROVIDER_KEYS, extras=("gpu", "trt10"))

    def before_loading(self, spec: EngineSpec) -> None:
        """Switch TF32 off for the whole process: the provider has no option for it, and has it on (version 1.31).

        What chooses kernels is the builder, which is a process of its own and reads what this one has set.
        """
        if not options_of(spec).compute_capability and not find_loading_error(DRIVER):
            switch_off()

    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Tell whether the provider loads, or for a named target whether a build can be simulated."""
        if spec is not None and options_of(spec).compute_capability:
            return super().availability(spec)
        if spec is not None:
            self.before_loading(spec)
        return find_provider(TENSORRT)

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Those of the graph and the builder, ONNX Runtime among them, and its provider."""
        ours = {"provider": TENSORRT}
        if not options_of(spec).compute_capability:
            gpu = cuda_gpu(self.device)
            ours |= {"GPU": "" if gpu is None else f"{gpu.name} ({gpu.sm})", "native TensorRT": installed_tensorrt()}
        return {**super().ingredients(spec), **ours}

    def tunes(self, spec: EngineSpec) -> bool:
        """Whether the provider's TensorRT builds on the GPU and times its kernels; not for a named target."""
        return not options_of(spec).compute_capability

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Write the checked graph and the engines of the provider."""
        if options_of(spec).compute_capability:
            super().build(spec, calibration, folder)
            return
        self._load(spec)
        from pytest_quant.backends.trt.network import write_graph
        from pytest_quant.backends.trt.provider_engine import build_engines, providers_of

        graph = write_graph(spec, calibration, folder)
        build_engines(graph, providers_of(spec, graph, folder), folder, f"{spec.id} of {spec.model.name}")

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open a session and prove that its products are on TensorRT. Raises `BuildError`."""
        if options_of(spec).compute_capability:
            from pytest_quant.backends.trt.simulated import SimulatedEngine

            return SimulatedEngine(spec, folder, stands_for="ONNX Runtime's TensorRT provider")
        self._load(spec)
        from pytest_quant.backends.trt.provider_engine import OrtTrtEngine

        return OrtTrtEngine(spec, folder)

    def _load(self, spec: EngineSpec) -> None:
        """Load what the provider needs: a session would look for it in vain, say so in a log, and run on CUDA."""
        self.before_loading(spec)
        support = find_provider(TENSORRT)
        if not support.available:
            raise BackendUnavailable(f"backend 'ort-trt' cannot run here: {support.reason}", fix=support.fix or None)
