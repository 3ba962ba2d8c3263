"""The backend ``torch-cuda``: whether PyTorch can run on a GPU here, what it offers, and its engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

from pytest_quant.backends.base import Engine, Feeds
from pytest_quant.backends.offer import Availability
from pytest_quant.backends.readback import device_times
from pytest_quant.backends.runtime import driver_too_old
from pytest_quant.backends.torch import TorchBackend
from pytest_quant.backends.torch.engine import TorchEngine
from pytest_quant.backends.torch.module import named_outputs
from pytest_quant.backends.torch.options import CUDA_KEYS, float_type, import_torch, parse_options
from pytest_quant.backends.torch.program import load_program
from pytest_quant.environment.gpu import gpu_kind
from pytest_quant.result import DeviceTimes
from pytest_quant.spec import EngineSpec

_INSTALL = "install torch for CUDA, see https://pytorch.org/get-started/locally"
_OLDER_CUDA = _INSTALL.replace("CUDA", "an older CUDA")
_DEVICE = "cuda:0"


def find_device(spec: EngineSpec | None) -> Availability:
    """Tell whether torch is built for CUDA and finds a GPU; with `spec`, whether that GPU computes its type."""
    torch = import_torch()
    if isinstance(torch, Availability):
        return torch
    if torch.version.cuda is None:
        return Availability(False, reason=f"torch {torch.__version__} is a build without CUDA", fix=_INSTALL)
    if refused := driver_too_old({f"torch {torch.__version__}": torch.version.cuda}, _OLDER_CUDA):
        return refused
    if not torch.cuda.is_available():
        reason = f"torch {torch.__version__} is built for CUDA {torch.version.cuda} and finds no GPU"
        return Availability(False, reason=reason, fix="run it on a machine with an NVIDIA GPU; nvidia-smi shows it")
    if spec is not None and float_type(spec) == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        name = torch.cuda.get_device_name(0)
        return Availability(False, reason=f"{name} does not compute bf16", fix="use precision='fp16'")
    return Availability(True, version=str(torch.__version__), device=f"cuda:0 {torch.cuda.get_device_name(0)}")


class TorchCudaEngine(TorchEngine):
    """A traced program whose inputs lie on the GPU while it is timed."""

    provider = "cuda"

    def __init__(self, spec: EngineSpec, folder: Path) -> None:
        super().__init__(spec, folder)
        self._tf32 = parse_options(spec.options).tf32

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return one run over inputs that are on the device already, synchronized before it returns."""
        import torch

        call = super()._prepare(feeds)

        def synchronized() -> None:
            call()
            torch.cuda.synchronize()

        return synchronized

    def _prepare_events(self, feeds: Feeds) -> Callable[[], float]:
        """Return two runs, the second one between two events on their stream, synchronized before it returns."""
        return partial(_time_ms, super()._prepare(feeds))

    def _device_times(self, feeds: Feeds) -> DeviceTimes | None:
        """Time copies, from and to memory that is not page-locked, and compute by events on the stream."""
        import torch

        call = super()._prepare(feeds)
        outputs = named_outputs(call()).values()
        return device_times(
            partial(self._tensors, feeds),
            call,
            lambda: [output.cpu() for output in outputs],
            wait=torch.cuda.synchronize,
            time_ms=_time_ms,
            pinned=False,
        )

    def _call(self, feeds: Feeds) -> Callable[[], Any]:
        """Return a call in which the process's switches of TF32 are the engine's; compiling looks at them too."""
        with _tf32(self._tf32):
            program = super()._call(feeds)

        def call() -> Any:
            with _tf32(self._tf32):
                return program()

        return call

    def _tensors(self, feeds: Feeds) -> tuple[Any, ...]:
        return tuple(tensor.to(_DEVICE) for tensor in super()._tensors(feeds))

    def _load(self) -> Any:
        import torch

        before = torch.cuda.memory_allocated()
        module = load_on_device(self._file).module()
        self.device_bytes = (self.device_bytes or 0) + torch.cuda.memory_allocated() - before
        return module


def load_on_device(file: Path) -> Any:
    """Return the ``torch.export.ExportedProgram`` in `file`, with its tensors on the GPU. Raises as `load_program`."""
    from torch.export.passes import move_to_device_pass

    # With the number of the device: a program asserts the device of its tensors, and theirs has one.
    return move_to_device_pass(load_program(file), _DEVICE)


def _time_ms(start: Callable[[], object]) -> float:
    """Do twice what `start` does, and return the milliseconds between two events around the second time."""
    import torch

    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    # In an idle stream the host's way to the first kernel would count.
    start()
    first.record()
    start()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last))


@cache
def _switches() -> tuple[Any, ...]:
    """Return what holds the switches, looked up once: a timed run has no time for it."""
    import torch

    backends = cast("Any", torch.backends)
    return backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """Switch TF32 on or off for the process, and afterwards back to what the user's code set.

    Only by the names of torch 2.9 and later: a switch set by them cannot be read by its old name, ``allow_tf32``.
    """
    wanted = "tf32" if allowed else "ieee"
    changed = [(switch, was) for switch in _switches() if (was := switch.fp32_precision) != wanted]
    try:
        for switch, _ in changed:
            switch.fp32_precision = wanted
        yield
    finally:
        for switch, was in changed:
            switch.fp32_precision = was


class TorchCudaBackend(TorchBackend):
    """Half precision, and int8 weights by torchao; int8 activations are the domain of TensorRT there."""

    name = "torch-cuda"
    device = _DEVICE
    offer = replace(
        TorchBackend.offer,
        precisions={"fp32": (None,), "fp16": (None,), "bf16": (None,), "int8": ("weight-only",)},
        options=CUDA_KEYS,
        calibrations=(),
        extras=("gpu", "torch-cuda"),
    )

    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Tell whether torch is built for CUDA, and a GPU with its driver is here."""
        return find_device(spec)

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Those of the program; it is compiled for the GPU when it is opened."""
        return {**super().ingredients(spec), "device": "cuda", "GPU": gpu_kind(self.device)}

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the program on the GPU; it is compiled for a shape when that is first run."""
        return TorchCudaEngine(spec, folder)
