"""The clock of a GPU for sessions of ONNX Runtime: a stream of our own that they run on, with events around a run.

ONNX Runtime shows no events of the streams that it makes, and takes one that it is given. Its Python binding has no
page-locked memory of the CUDA provider either (version 1.31), so copies are timed with memory of the stream's library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from pytest_quant.backends.cuda.device import open_device
from pytest_quant.backends.cuda.memory import DeviceClock, DeviceMemory, make_clock
from pytest_quant.backends.layers import device_times
from pytest_quant.backends.ort.libraries import CUDA, TENSORRT
from pytest_quant.backends.ort.session import Provider
from pytest_quant.errors import BackendUnavailable, BuildError
from pytest_quant.result import DeviceTimes


def on_stream(clock: DeviceClock, providers: Sequence[Provider]) -> tuple[Provider, ...]:
    """Return `providers`, those of a GPU with the option to run on the stream of `clock`."""
    ours = {"has_user_compute_stream": "1", "user_compute_stream": str(clock.stream)}
    return tuple(
        Provider(one.name, {**one.options, **ours}, one.devices) if one.name in (CUDA, TENSORRT) else one
        for one in providers
    )


def time_parts(
    clock: DeviceClock,
    start: Callable[[], object],
    inputs: Sequence[int],
    outputs: Callable[[], Sequence[tuple[int, int]]],
) -> DeviceTimes:
    """Time a run and its copies by events, and the host's part in the run.

    Parameters
    ----------
    clock : of the stream that `start` uses.
    start : starts a run over inputs that are on the device.
    inputs : sizes in bytes.
    outputs : returns address and size in bytes of each output, once there was a run.
    """
    memory = clock.memory
    with memory.current(), ExitStack() as stack:
        start()
        clock.wait()
        into = [stack.enter_context(_room(memory, size)) for size in inputs]
        # Outputs of every run have the sizes of those of the first, and may lie elsewhere.
        out = [stack.enter_context(_locked(memory, size)) for _, size in outputs()]

        def copy_in() -> None:
            for host, address in into:
                memory.copy_in(address, host, clock.stream)

        def copy_out() -> None:
            for host, (address, _) in zip(out, outputs(), strict=True):
                memory.copy_out(host, address, clock.stream)

        return device_times(copy_in, start, copy_out, wait=clock.wait, time_ms=clock.time_ms, pinned=True)


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
    """Return the clock of GPU `index`, which all sessions of a process share; or ``None`` and why there is none.

    ONNX Runtime runs without one: the library is not installed, or is made for a newer driver than ONNX Runtime is.
    """
    try:
        memory = open_device(index)
    except (BackendUnavailable, BuildError) as error:
        return None, "; ".join(part for part in (error.what, error.value, error.fix) if part)
    return make_clock(memory), ""
