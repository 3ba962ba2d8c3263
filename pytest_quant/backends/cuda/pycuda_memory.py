"""Device memory, streams and events by pycuda."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends.cuda.memory import broken_context, nothing_to_lock, out_of_memory
from pytest_quant.errors import BuildError

_STICKY = ("illegal memory access", "unspecified launch failure", "misaligned address", "illegal instruction")
"""pycuda gives no codes; these are CUDA's own texts of the errors that it does not recover from."""


class PycudaMemory:
    """The device `index`. Raises `ImportError` when pycuda does not load, `BuildError` when there is no device.

    The primary context that it retains is given back with the object; what pycuda made must be gone by then.
    """

    name = "pycuda"

    def __init__(self, index: int) -> None:
        self._cuda: Any = import_module("pycuda.driver")
        self._broken = ""
        self._allocations: dict[int, Any] = {}
        self._streams: dict[int, Any] = {}
        self._call("cuInit", self._cuda.init)
        device = self._call("cuDeviceGet", lambda: self._cuda.Device(index))
        self._context = self._call("cuDevicePrimaryCtxRetain", device.retain_primary_context)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Push the primary context, and pop it again whatever happens."""
        self._context.push()
        try:
            yield
        finally:
            self._cuda.Context.pop()

    def check(self) -> None:
        """Raise `BuildError` when an error of before has broken the context of this process."""
        if self._broken:
            raise broken_context(self._broken)

    def allocate(self, size_bytes: int) -> int:
        """Return the address of `size_bytes` of device memory."""
        allocation = self._call("cuMemAlloc", lambda: self._cuda.mem_alloc(size_bytes), size_bytes)
        self._allocations[int(allocation)] = allocation
        return int(allocation)

    def free(self, address: int) -> None:
        """Give back what `allocate` returned."""
        allocation = self._allocations.pop(address)
        if not self._broken:
            self._call("cuMemFree", allocation.free)

    def lock(self, size_bytes: int) -> NDArray[np.uint8]:
        """Return `size_bytes` of page-locked memory."""
        call = partial(self._cuda.pagelocked_empty, size_bytes, np.uint8)
        array: NDArray[np.uint8] = self._call("cuMemHostAlloc", call, size_bytes)
        self._allocations[array.ctypes.data] = array.base
        return array

    def unlock(self, array: NDArray[np.uint8]) -> None:
        """Give back what `lock` returned."""
        allocation = self._allocations.pop(array.ctypes.data)
        if not self._broken:
            self._call("cuMemFreeHost", allocation.free)

    def copy_in(self, address: int, array: NDArray[Any], stream: int) -> None:
        """Copy a contiguous array to the device, in the order of `stream`."""
        self._call("cuMemcpyHtoDAsync", lambda: self._cuda.memcpy_htod_async(address, array, self._streams[stream]))

    def copy_out(self, array: NDArray[Any], address: int, stream: int) -> None:
        """Copy from the device into a contiguous array, in the order of `stream`."""
        self._call("cuMemcpyDtoHAsync", lambda: self._cuda.memcpy_dtoh_async(array, address, self._streams[stream]))

    def new_stream(self) -> int:
        """Return a stream of its own."""
        stream = self._call("cuStreamCreate", self._cuda.Stream)
        self._streams[int(stream.handle)] = stream
        return int(stream.handle)

    def end_stream(self, stream: int) -> None:
        """Give back what `new_stream` returned; pycuda destroys it with the object."""
        del self._streams[stream]

    def wait(self, stream: int) -> None:
        """Wait until everything in `stream` is done. Raises `BuildError` when some of it failed."""
        self._call("cuStreamSynchronize", self._streams[stream].synchronize)

    def new_event(self) -> Any:
        """Return an event, which can be recorded many times."""
        return self._call("cuEventCreate", self._cuda.Event)

    def end_event(self, event: Any) -> None:
        """Give back what `new_event` returned; pycuda destroys it with the object."""

    def record(self, event: Any, stream: int) -> None:
        """Let `event` hold the time at which `stream` gets here."""
        self._call("cuEventRecord", lambda: event.record(self._streams[stream]))

    def between_ms(self, first: Any, second: Any) -> float:
        """Wait for the event `second` and return the milliseconds since `first`."""
        self._call("cuEventSynchronize", second.synchronize)
        return float(self._call("cuEventElapsedTime", lambda: first.time_till(second)))

    def capture(self, stream: int, start: Callable[[], None]) -> Any:  # noqa: ARG002
        """Raise `BuildError`: pycuda has no graphs."""
        raise BuildError("pycuda has no CUDA graphs", fix="pip install cuda-bindings, which is taken before pycuda")

    def launch(self, graph: Any, stream: int) -> None:
        """Do nothing: there is no graph."""

    def end_graph(self, graph: Any) -> None:
        """Do nothing: there is no graph."""

    def _call(self, name: str, call: Callable[[], Any], size_bytes: int = 0) -> Any:
        """Call pycuda, whose errors have a text and no code."""
        self.check()
        try:
            return call()
        except self._cuda.MemoryError as error:
            if name == "cuMemHostAlloc":
                raise nothing_to_lock(name, size_bytes) from error
            free, total = self._cuda.mem_get_info()
            raise out_of_memory(name, size_bytes, free, total) from error
        except self._cuda.Error as error:
            if any(text in str(error) for text in _STICKY):
                self._broken = f"{name}: {error}"
                raise broken_context(self._broken) from error
            raise BuildError(
                f"CUDA refused {name}", value=str(error), fix="nvidia-smi tells whether the driver sees a GPU"
            ) from error
