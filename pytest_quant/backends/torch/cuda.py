"""The backend ``torch-cuda``: PyTorch on a GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from pytest_quant.backends.base import Availability, Engine, Feeds
from pytest_quant.backends.options import check_offer
from pytest_quant.backends.torch import TorchBackend
from pytest_quant.backends.torch.engine import TorchEngine
from pytest_quant.backends.torch.module import named_outputs
from pytest_quant.backends.torch.options import float_type, import_torch, parse_options
from pytest_quant.backends.torch.program import load_program
from pytest_quant.environment.gpu import has_nvml
from pytest_quant.environment.packages import version
from pytest_quant.errors import BuildError
from pytest_quant.result import DeviceTimes
from pytest_quant.spec import EngineSpec

_TIMED_RUNS = 21


_INSTALL = "install torch for CUDA, see https://pytorch.org/get-started/locally"


class TorchCudaEngine(TorchEngine):
    """A traced program whose inputs lie on the GPU while it is timed."""

    provider = "cuda"

    def __init__(self, spec: EngineSpec, folder: Path) -> None:
        super().__init__(spec, folder)
        _switch_tf32_off()

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return one run over inputs that are on the device already, synchronized before it returns."""
        import torch

        call = super()._prepare(feeds)

        def synchronized() -> None:
            call()
            torch.cuda.synchronize()

        return synchronized

    def _device_times(self, feeds: Feeds) -> DeviceTimes | None:
        """Time compute between two events on the stream, and copies and the whole run by the host's clock."""
        import torch

        call = super()._prepare(feeds)
        times: dict[str, list[float]] = {"h2d": [], "host": [], "d2h": [], "gpu": []}
        for _ in range(_TIMED_RUNS):
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            started = time.perf_counter()
            self._tensors(feeds)
            torch.cuda.synchronize()
            copied = time.perf_counter()
            first.record()
            found = call()
            last.record()
            torch.cuda.synchronize()
            ran = time.perf_counter()
            for one in named_outputs(found).values():
                one.cpu()
            spent = (copied - started, ran - copied, time.perf_counter() - ran)
            for name, seconds in zip(times, spent, strict=False):
                times[name].append(1e3 * seconds)
            times["gpu"].append(float(first.elapsed_time(last)))
        found_ms = {name: statistics.median(values) for name, values in times.items()}
        return DeviceTimes(_TIMED_RUNS, found_ms["gpu"], found_ms["h2d"], found_ms["d2h"], found_ms["host"])

    def _tensors(self, feeds: Feeds) -> tuple[Any, ...]:
        return tuple(one.cuda() for one in super()._tensors(feeds))

    def _load(self) -> Any:
        import torch
        from torch.export.passes import move_to_device_pass

        before = torch.cuda.memory_allocated()
        module = move_to_device_pass(load_program(self._file), "cuda").module()
        self.device_bytes = (self.device_bytes or 0) + torch.cuda.memory_allocated() - before
        return module


def _switch_tf32_off() -> None:
    """TF32 rounds the inputs of an FP32 product to ten bits; cuDNN has it on by default. Holds for the process."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32:
        raise BuildError("PyTorch does not let TF32 be switched off", fix="unset TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")


def find_device(spec: EngineSpec | None) -> Availability:
    """Tell whether torch is built for CUDA and finds a GPU; with `spec`, whether that GPU computes its type."""
    if _is_built_without_cuda():
        return Availability(False, reason=f"torch {version('torch')} is a build without CUDA", fix=_INSTALL)
    torch = import_torch()
    if isinstance(torch, Availability):
        return torch
    if not torch.cuda.is_available():
        reason = f"torch {torch.__version__} is built for CUDA {torch.version.cuda} and finds no GPU"
        return Availability(False, reason=reason, fix="run it on a machine with an NVIDIA GPU; nvidia-smi shows it")
    if spec is not None and float_type(spec) == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        name = torch.cuda.get_device_name(0)
        return Availability(False, reason=f"{name} does not compute bf16", fix="use precision='fp16'")
    if spec is not None and parse_options(spec.options).compiled and find_spec("triton") is None:
        reason = "Inductor compiles for a GPU with triton, and triton is not installed"
        return Availability(False, reason=reason, fix="pip install triton, or options={'compiled': False}")
    if not has_nvml():
        reason = "nvidia-ml-py is not installed, by which records tell one GPU from another"
        return Availability(False, reason=reason, fix='pip install "pytest-quant[torch-cuda]"')
    return Availability(True, version=str(torch.__version__), device=f"cuda:0 {torch.cuda.get_device_name(0)}")


def _is_built_without_cuda() -> bool:
    """Read torch's small file ``version.py``, since torch takes seconds to import; ``False`` without that file."""
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        return False
    spec = spec_from_file_location("torch_build", Path(torch.origin).with_name("version.py"))
    if spec is None or spec.loader is None or not Path(str(spec.origin)).exists():
        return False
    build = module_from_spec(spec)
    spec.loader.exec_module(build)
    return getattr(build, "cuda", "") is None


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
        return TorchCudaEngine(spec, folder)
