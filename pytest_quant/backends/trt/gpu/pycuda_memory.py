"""Device memory, streams and events by pycuda."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from pytest_quant.errors import BuildError


class PycudaMemory:
    """The device `index`. Raises `ImportError` when pycuda does not load, `BuildError` when there is no device."""

    name = "pycuda"

    def __init__(self, index: int) -> None:
        self._cuda: Any = import_module("pycuda.driver")
        try:
            self._cuda.init()
            self._context = self._cuda.Device(index).retain_primary_context()
        except self._cuda.Error as error:
            raise BuildError(
                f"CUDA refused device {index}", value=str(error), fix="nvidia-smi tells whether the driver sees a GPU"
            ) from error
        self._allocations: dict[int, Any] = {}
        self._streams: dict[int, Any] = {}

    @contextmanager
    def current(self) -> Iterator[None]:
        """Push the primary context, and pop it again whatever happens."""
        self._context.push()
        try:
            yield
        finally:
            self._cuda.Context.pop()

    def allocate(self, size_bytes: int) -> int:
        """Return the address of `size_bytes` of device memory."""
        allocation = self._cuda.mem_alloc(size_bytes)
        self._allocations[int(allocation)] = allocation
        return int(allocation)

    def free(self, address: int) -> None:
        """Give back what `allocate` returned."""
        self._allocations.pop(address).free()

    def copy_in(self, address: int, array: NDArray[Any], stream: int) -> None:
        """Copy a contiguous array to the device, in the order of `stream`."""
        self._cuda.memcpy_htod_async(address, array, self._streams[stream])

    def copy_out(self, array: NDArray[Any], address: int, stream: int) -> None:
        """Copy from the device into a contiguous array, in the order of `stream`."""
        self._cuda.memcpy_dtoh_async(array, address, self._streams[stream])

    def new_stream(self) -> int:
        """Return a stream of its own."""
        stream = self._cuda.Stream()
        self._streams[int(stream.handle)] = stream
        return int(stream.handle)

    def end_stream(self, stream: int) -> None:
        """Give back what `new_stream` returned; pycuda destroys it with the object."""
        del self._streams[stream]

    def wait(self, stream: int) -> None:
        """Wait until everything in `stream` is done. Raises `BuildError` when some of it failed."""
        try:
            self._streams[stream].synchronize()
        except self._cuda.Error as error:
            raise BuildError("a run on the GPU failed", value=str(error)) from error

    def mark(self, stream: int) -> Any:
        """Return an event recorded in `stream` now."""
        return self._cuda.Event().record(self._streams[stream])

    def between_ms(self, first: Any, second: Any) -> float:
        """Wait for the event `second` and return the milliseconds since `first`."""
        second.synchronize()
        return float(first.time_till(second))
