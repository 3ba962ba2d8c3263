"""A traced program on a GPU, timed by events on its stream, with TF32 as the engine asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch.export.passes import move_to_device_pass

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.readback import device_times
from pytest_quant.backends.torch.cuda import DEVICE
from pytest_quant.backends.torch.engine import TorchEngine
from pytest_quant.backends.torch.module import named_outputs
from pytest_quant.backends.torch.options import parse_options
from pytest_quant.backends.torch.program import load_program
from pytest_quant.result import DeviceTimes
from pytest_quant.spec import EngineSpec

_BACKENDS = cast("Any", torch.backends)
_SWITCHES = (_BACKENDS.cuda.matmul, _BACKENDS.cudnn.conv, _BACKENDS.cudnn.rnn)
"""What holds the switches of TF32."""


class TorchCudaEngine(TorchEngine):
    """A traced program whose inputs lie on the GPU while it is timed."""

    provider = "cuda"

    def __init__(self, spec: EngineSpec, folder: Path) -> None:
        super().__init__(spec, folder)
        self._tf32 = parse_options(spec.options).tf32

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return one run over inputs that are on the device already, synchronized before it returns."""
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
        return tuple(tensor.to(DEVICE) for tensor in super()._tensors(feeds))

    def _load(self) -> Any:
        before = torch.cuda.memory_allocated()
        module = load_on_device(self._file).module()
        self.device_bytes = (self.device_bytes or 0) + torch.cuda.memory_allocated() - before
        return module


def load_on_device(file: Path) -> Any:
    """Return the ``torch.export.ExportedProgram`` in `file`, with its tensors on the GPU. Raises as `load_program`."""
    # With the number of the device: a program asserts the device of its tensors, and theirs has one.
    return move_to_device_pass(load_program(file), DEVICE)


def _time_ms(start: Callable[[], object]) -> float:
    """Do twice what `start` does, and return the milliseconds between two events around the second time."""
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    # In an idle stream the host's way to the first kernel would count.
    start()
    first.record()
    start()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last))


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """Switch TF32 on or off for the process, and afterwards back to what the user's code set.

    Only by the names of torch 2.9 and later: a switch set by them cannot be read by its old name, ``allow_tf32``.
    """
    wanted = "tf32" if allowed else "ieee"
    changed = [(switch, was) for switch in _SWITCHES if (was := switch.fp32_precision) != wanted]
    try:
        for switch, _ in changed:
            switch.fp32_precision = wanted
        yield
    finally:
        for switch, was in changed:
            switch.fp32_precision = was
