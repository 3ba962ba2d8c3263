"""The clock of a GPU for sessions of ONNX Runtime: a stream of our own that they run on, with events around a run.

ONNX Runtime shows no events of the streams that it makes, and takes one that it is given. Its Python binding has no
page-locked memory of the CUDA provider either (version 1.31), so copies are timed with memory of the stream's library.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

from pytest_quant.backends.ort.libraries import CUDA, TENSORRT
from pytest_quant.backends.ort.session import Provider
from pytest_quant.backends.trt.gpu.device import open_device
from pytest_quant.backends.trt.gpu.memory import DeviceMemory
from pytest_quant.errors import BackendUnavailable, BuildError
from pytest_quant.result import DeviceTimes

_WARMUP = 3
_TIMED_RUNS = 21
_MS_PER_NS = 1e-6


@dataclass(frozen=True)
class DeviceClock:
    """A stream of the device and two events in it; all sessions of a process share it, one run at a time.

    Attributes
    ----------
    memory : the library that made them.
    """

    memory: DeviceMemory
    stream: int
    first: Any
    last: Any

    def asked(self, providers: Sequence[Provider]) -> tuple[Provider, ...]:
        """Return `providers`, those of a GPU with the option to run on this stream."""
        ours = {"has_user_compute_stream": "1", "user_compute_stream": str(self.stream)}
        return tuple(
            Provider(one.name, {**one.options, **ours}, one.devices) if one.name in (CUDA, TENSORRT) else one
            for one in providers
        )

    def wait(self) -> None:
        """Wait until everything in the stream is done."""
        with self.memory.current():
            self.memory.wait(self.stream)

    def time_ms(self, start: Callable[[], object]) -> float:
        """Do twice what `start` puts into the stream, wait for it, and return the milliseconds of the second time.

        In an idle stream the host's way to what is put there would count.
        """
        with self.memory.current():
            start()
            self.memory.record(self.first, self.stream)
            start()
            self.memory.record(self.last, self.stream)
            self.memory.wait(self.stream)
            return self.memory.between_ms(self.first, self.last)

    def time_parts(
        self, start: Callable[[], object], inputs: Sequence[int], outputs: Callable[[], Sequence[tuple[int, int]]]
    ) -> DeviceTimes:
        """Time a run and its copies by events, and the host's part in the run.

        Parameters
        ----------
        start : starts a run over inputs that are on the device.
        inputs : sizes in bytes.
        outputs : returns address and size in bytes of each output, once there was a run.
        """
        with self.memory.current(), ExitStack() as stack:
            start()
            self.memory.wait(self.stream)
            into = [stack.enter_context(_room(self.memory, size)) for size in inputs]
            # Outputs of every run have the sizes of those of the first, and may lie elsewhere.
            out = [stack.enter_context(_locked(self.memory, size)) for _, size in outputs()]

            def copy_in() -> None:
                for host, address in into:
                    self.memory.copy_in(address, host, self.stream)

            def copy_out() -> None:
                for host, (address, _) in zip(out, outputs(), strict=True):
                    self.memory.copy_out(host, address, self.stream)

            rows = [self._one(copy_in, start, copy_out) for _ in range(_WARMUP + _TIMED_RUNS)][_WARMUP:]
        h2d_ms, gpu_ms, d2h_ms, host_ms, enqueue_ms = (median(column) for column in zip(*rows, strict=True))
        return DeviceTimes(_TIMED_RUNS, gpu_ms, h2d_ms, d2h_ms, host_ms, pinned=True, enqueue_ms=enqueue_ms)

    def _one(
        self, copy_in: Callable[[], None], start: Callable[[], object], copy_out: Callable[[], None]
    ) -> tuple[float, float, float, float, float]:
        h2d_ms = self.time_ms(copy_in)
        began_ns = time.perf_counter_ns()
        start()
        enqueue_ms = (time.perf_counter_ns() - began_ns) * _MS_PER_NS
        self.memory.wait(self.stream)
        host_ms = (time.perf_counter_ns() - began_ns) * _MS_PER_NS
        return h2d_ms, self.time_ms(start), self.time_ms(copy_out), host_ms, enqueue_ms


@contextmanager
def _room(memory: DeviceMemory, size: int) -> Iterator[tuple[Any, int]]:
    """Give page-locked memory of the host and an address on the device, both of `size` bytes."""
    address = memory.allocate(max(1, size))
    try:
        with _locked(memory, size) as host:
            yield host, address
    finally:
        memory.free(address)


@contextmanager
def _locked(memory: DeviceMemory, size: int) -> Iterator[Any]:
    host = memory.lock(max(1, size))
    try:
        yield host[:size]
    finally:
        memory.unlock(host)


@cache
def device_clock(index: int = 0) -> tuple[DeviceClock | None, str]:
    """Return the clock of GPU `index`, one in a process; or ``None`` and why there is none.

    ONNX Runtime runs without one: the library is not installed, or is made for a newer driver than ONNX Runtime is.
    """
    try:
        memory = open_device(index)
    except (BackendUnavailable, BuildError) as error:
        return None, "; ".join(part for part in (error.what, error.value, error.fix) if part)
    return make_clock(memory), ""


def make_clock(memory: DeviceMemory) -> DeviceClock:
    """Return a stream with two events of `memory`. Raises `BuildError`."""
    with memory.current():
        return DeviceClock(memory, memory.new_stream(), memory.new_event(), memory.new_event())
