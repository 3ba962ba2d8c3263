"""Memory, streams and events of a GPU, by cuda-bindings or by pycuda, and what the errors of CUDA mean."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import BuildError

_FATAL = (
    "Assert Contained ExternalDevice HardwareStackError IllegalAddress IllegalInstruction "
    "InvalidAddressSpace InvalidPc LaunchFailure LaunchTimeout MisalignedAddress MpsClientTerminated "
    "TensorMemoryLeak"
)
STICKY = frozenset(f"cudaError{name}" for name in _FATAL.split())
"""Errors of which CUDA says that the process must be ended and started again."""


_FIX = "nvidia-smi shows whether the driver sees a GPU"
_FIXES = {"cudaErrorInsufficientDriver": 'a newer driver, or where it has CUDA 12 pip install "cuda-bindings<13"'}


class DeviceMemory:
    """Memory, streams and events of one device by cuda-bindings, the library of NVIDIA's own samples.

    A process has one object for each device. Addresses and streams are plain integers, as TensorRT takes them. Every
    method but `current` needs the context current, and raises `BuildError` when CUDA refuses. After an error that CUDA
    cannot recover from, what gives something back does nothing: the driver takes all of it when the process ends.

    Parameters
    ----------
    cuda, driver : the modules ``cuda.bindings.runtime`` and ``cuda.bindings.driver``.
    index : of the device. Raises `BuildError` when there is none.
    """

    name = "cuda-bindings"

    def __init__(self, cuda: Any, driver: Any, index: int) -> None:
        self._cuda, self._driver = cuda, driver
        self._index = index
        self._broken = ""
        with self.current():
            """There is such a device."""

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the device's primary context current inside the block; other libraries of this process use it too.

        A context of the user's own, as ``pycuda.autoinit`` makes one, is current again after the block.
        """
        _, before = self._driver.cuCtxGetCurrent()
        try:
            self._unless_broken("cudaSetDevice", self._index)
            yield
        finally:
            if int(before or 0):
                self._driver.cuCtxSetCurrent(before)

    def check(self) -> None:
        """Raise `BuildError` when an earlier error of CUDA made the context of this process unusable."""
        if self._broken:
            raise broken_context(self._broken)

    def allocate(self, size_bytes: int) -> int:
        """Return the address of `size_bytes` of device memory."""
        return int(self._call("cudaMalloc", size_bytes))

    def free(self, address: int) -> None:
        """Give back what `allocate` returned."""
        self._unless_broken("cudaFree", address)

    def lock(self, size_bytes: int) -> NDArray[np.uint8]:
        """Return page-locked memory of the host, which the device reads and writes itself; other is copied twice."""
        address = int(self._call("cudaHostAlloc", size_bytes, 0))
        return np.ctypeslib.as_array((ctypes.c_uint8 * size_bytes).from_address(address))

    def unlock(self, array: NDArray[np.uint8]) -> None:
        """Give back what `lock` returned; it must not be read after."""
        self._unless_broken("cudaFreeHost", array.ctypes.data)

    def copy_in(self, address: int, array: NDArray[Any], stream: int) -> None:
        """Start a copy of a C-contiguous `array` to the device, in the order of `stream`; it must live until `wait`."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyHostToDevice
        self._call("cudaMemcpyAsync", address, array.ctypes.data, array.nbytes, kind, stream)

    def copy_out(self, array: NDArray[Any], address: int, stream: int) -> None:
        """Start a copy from the device into a C-contiguous `array`, in the order of `stream`; filled after `wait`."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyDeviceToHost
        self._call("cudaMemcpyAsync", array.ctypes.data, address, array.nbytes, kind, stream)

    def new_stream(self) -> int:
        """Return a stream of its own: the default stream waits for all others."""
        return int(self._call("cudaStreamCreate"))

    def end_stream(self, stream: int) -> None:
        """Give back what `new_stream` returned."""
        self._unless_broken("cudaStreamDestroy", stream)

    def wait(self, stream: int) -> None:
        """Wait until everything in `stream` is done. Raises `BuildError` when some of it failed."""
        self._call("cudaStreamSynchronize", stream)

    def new_event(self) -> Any:
        """Return an event, which can be recorded many times."""
        return self._call("cudaEventCreate")

    def end_event(self, event: Any) -> None:
        """Give back what `new_event` returned."""
        self._unless_broken("cudaEventDestroy", event)

    def record(self, event: Any, stream: int) -> None:
        """Let `event` hold the time at which `stream` gets here."""
        self._call("cudaEventRecord", event, stream)

    def between_ms(self, first: Any, second: Any) -> float:
        """Wait for the event `second` and return the milliseconds since `first`, by the device's clock."""
        self._call("cudaEventSynchronize", second)
        return float(self._call("cudaEventElapsedTime", first, second))

    def _unless_broken(self, name: str, *arguments: Any) -> None:
        """Call what gives something back, or nothing where nothing can be given back any more."""
        if not self._broken:
            self._call(name, *arguments)

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the library, which returns its status first and its result after it."""
        self.check()
        status, *values = getattr(self._cuda, name)(*arguments)
        if status != self._cuda.cudaError_t.cudaSuccess:
            raise self._error(name, arguments, status)
        return values[0] if values else None

    def _error(self, name: str, arguments: tuple[Any, ...], status: Any) -> BuildError:
        text = self._cuda.cudaGetErrorString(status)[1]
        said = f"{name}: {status.name} ({text.decode() if isinstance(text, bytes) else text})"
        if status.name in STICKY:
            self._broken = said
            return broken_context(said)
        # Else the next call that asks for the last error, of another library too, takes this one for its own.
        self._cuda.cudaGetLastError()
        if status == self._cuda.cudaError_t.cudaErrorMemoryAllocation:
            return out_of_memory(name, arguments, *self._cuda.cudaMemGetInfo()[1:])
        return BuildError(f"CUDA refused {name}", value=said, fix=_FIXES.get(status.name, _FIX))


_STICKY_TEXTS = ("illegal memory access", "unspecified launch failure", "misaligned address", "illegal instruction")
"""pycuda gives no codes; these are CUDA's own texts of the errors that it does not recover from."""


class PycudaMemory(DeviceMemory):
    """The same by pycuda. Raises `ImportError` when pycuda does not load, `BuildError` when there is no device.

    The primary context that it retains is given back with the object; what pycuda made must be gone by then.
    """

    name = "pycuda"

    def __init__(self, index: int) -> None:
        self._cuda = pycuda = import_module("pycuda.driver")
        self._broken = ""
        kept: dict[int, Any] = {}

        def keep(made: Any, number_of: Callable[[Any], Any]) -> int:
            """Keep what frees itself where nobody refers to it, by its address or handle."""
            number = int(number_of(made))
            kept[number] = made
            return number

        # By the names that cuda-bindings has for them; a stream and an event end with their object.
        self._functions: dict[str, Callable[..., Any]] = {
            "cudaMalloc": lambda size_bytes: keep(pycuda.mem_alloc(size_bytes), int),
            "cudaFree": lambda address: kept.pop(address).free(),
            "cudaHostAlloc": lambda size_bytes, _: keep(
                pycuda.pagelocked_empty(size_bytes, np.uint8), attrgetter("ctypes.data")
            ),
            "cudaFreeHost": lambda address: kept.pop(address).base.free(),
            "cudaMemcpyHtoDAsync": lambda to, array, stream: pycuda.memcpy_htod_async(to, array, kept[stream]),
            "cudaMemcpyDtoHAsync": lambda array, at, stream: pycuda.memcpy_dtoh_async(array, at, kept[stream]),
            "cudaStreamCreate": lambda: keep(pycuda.Stream(), attrgetter("handle")),
            "cudaStreamDestroy": kept.pop,
            "cudaStreamSynchronize": lambda stream: kept[stream].synchronize(),
            "cudaEventCreate": lambda: pycuda.Event(),
            "cudaEventDestroy": lambda _: None,
            "cudaEventRecord": lambda event, stream: event.record(kept[stream]),
            "cudaEventSynchronize": lambda event: event.synchronize(),
            "cudaEventElapsedTime": lambda first, second: first.time_till(second),
            "cuInit": pycuda.init,
            "cuDevicePrimaryCtxRetain": lambda: pycuda.Device(index).retain_primary_context(),
        }
        self._call("cuInit")
        self._context = self._call("cuDevicePrimaryCtxRetain")

    @contextmanager
    def current(self) -> Iterator[None]:
        """Push the primary context, and pop it again whatever happens."""
        self._context.push()
        try:
            yield
        finally:
            self._cuda.Context.pop()

    def copy_in(self, address: int, array: NDArray[Any], stream: int) -> None:
        """Copy a contiguous array to the device, in the order of `stream`."""
        self._call("cudaMemcpyHtoDAsync", address, array, stream)

    def copy_out(self, array: NDArray[Any], address: int, stream: int) -> None:
        """Copy from the device into a contiguous array, in the order of `stream`."""
        self._call("cudaMemcpyDtoHAsync", array, address, stream)

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call pycuda, whose errors have a text and no code."""
        self.check()
        try:
            return self._functions[name](*arguments)
        except self._cuda.MemoryError as error:
            raise out_of_memory(name, arguments, *self._cuda.mem_get_info()) from error
        except self._cuda.Error as error:
            if any(text in str(error) for text in _STICKY_TEXTS):
                self._broken = f"{name}: {error}"
                raise broken_context(self._broken) from error
            raise BuildError(f"CUDA refused {name}", value=str(error), fix=_FIX) from error


@dataclass(frozen=True)
class DeviceClock:
    """A stream of a device and two events in it, for one run at a time.

    Attributes
    ----------
    memory : the library that made them.
    events : the first and the last; none after `close`.
    """

    memory: DeviceMemory
    stream: int
    events: list[Any]

    def wait(self) -> None:
        """Wait until everything in the stream is done."""
        with self.memory.current():
            self.memory.wait(self.stream)

    def time_ms(self, start: Callable[[], object]) -> float:
        """Do twice what `start` puts into the stream, wait for it, and return the milliseconds of the second time.

        In an idle stream the host's way to what is put there would count.
        """
        first, last = self.events
        with self.memory.current():
            start()
            self.memory.record(first, self.stream)
            start()
            self.memory.record(last, self.stream)
            self.memory.wait(self.stream)
            return self.memory.between_ms(first, last)

    def close(self) -> None:
        """Give back the events and the stream."""
        while self.events:
            self.memory.end_event(self.events.pop())
        self.memory.end_stream(self.stream)


def make_clock(memory: DeviceMemory) -> DeviceClock:
    """Return a stream with two events of `memory`. Raises `BuildError`."""
    with memory.current():
        return DeviceClock(memory, memory.new_stream(), [memory.new_event(), memory.new_event()])


Blocks: TypeAlias = dict[str, tuple[int, int]]
"""Address and size of a block of device memory for each tensor, by its name."""


def block_of(name: str, size_bytes: int, blocks: Blocks, memory: DeviceMemory) -> int:
    """Return the address of the block of a tensor among `blocks`; `memory` replaces a block that is too small."""
    address, size = blocks.get(name, (0, 0))
    if size < size_bytes:
        if size:
            del blocks[name]
            memory.free(address)
        address = memory.allocate(size_bytes)
        blocks[name] = (address, size_bytes)
    return address


def free_blocks(blocks: Blocks, memory: DeviceMemory) -> None:
    """Give all `blocks` back to `memory`."""
    while blocks:
        memory.free(blocks.popitem()[1][0])


class OutOfMemoryError(BuildError):
    """An allocation found no room; the process goes on."""


def out_of_memory(call: str, arguments: tuple[Any, ...], free_bytes: int, total_bytes: int) -> OutOfMemoryError:
    """Return the error for a call that found no room.

    Parameters
    ----------
    call : the function that was refused.
    arguments : of it, the first of which is the size where it takes one.
    free_bytes, total_bytes : of the device; a call for page-locked memory may be refused while much of it is free.
    """
    request = f"{call} of {arguments[0] / 1e6:.1f} MB" if call in ("cudaMalloc", "cudaHostAlloc") else call
    return OutOfMemoryError(
        "CUDA is out of memory",
        value=f"{request}, while {free_bytes / 1e6:.1f} MB of {total_bytes / 1e6:.1f} MB of the GPU are free",
        fix="nvidia-smi shows which processes hold the GPU's; page-locked memory of the host has limits of the "
        "container and of 'ulimit -l'; smaller batches, fewer workers (-n) and closed engines need less",
    )


def broken_context(first: str) -> BuildError:
    """Return the error for every call after `first`, an error that CUDA cannot recover from."""
    return BuildError(
        "this process can no longer use the GPU: CUDA does not recover from the error that it met",
        value=first,
        fix="what comes after it on the GPU fails too: run the test that met it first by itself, in a new process; "
        "compute-sanitizer names the kernel",
    )
