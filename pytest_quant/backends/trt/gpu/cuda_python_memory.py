"""Device memory, streams and events by cuda-python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from pytest_quant.errors import BuildError


class CudaPythonMemory:
    """The device `index`. Raises `ImportError` when cuda-python does not load, `BuildError` when there is no device."""

    name = "cuda-python"

    def __init__(self, index: int) -> None:
        self._cuda: Any = _runtime()
        self._index = index
        self._call("cudaSetDevice", index)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Choose the device for this thread; its primary context comes with it."""
        self._call("cudaSetDevice", self._index)
        yield

    def allocate(self, size_bytes: int) -> int:
        """Return the address of `size_bytes` of device memory."""
        return int(self._call("cudaMalloc", size_bytes))

    def free(self, address: int) -> None:
        """Give back what `allocate` returned."""
        self._call("cudaFree", address)

    def copy_in(self, address: int, array: NDArray[Any], stream: int) -> None:
        """Copy a contiguous array to the device, in the order of `stream`."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyHostToDevice
        self._call("cudaMemcpyAsync", address, array.ctypes.data, array.nbytes, kind, stream)

    def copy_out(self, array: NDArray[Any], address: int, stream: int) -> None:
        """Copy from the device into a contiguous array, in the order of `stream`."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyDeviceToHost
        self._call("cudaMemcpyAsync", array.ctypes.data, address, array.nbytes, kind, stream)

    def new_stream(self) -> int:
        """Return a stream of its own."""
        return int(self._call("cudaStreamCreate"))

    def end_stream(self, stream: int) -> None:
        """Give back what `new_stream` returned."""
        self._call("cudaStreamDestroy", stream)

    def wait(self, stream: int) -> None:
        """Wait until everything in `stream` is done. Raises `BuildError` when some of it failed."""
        self._call("cudaStreamSynchronize", stream)

    def mark(self, stream: int) -> Any:
        """Return an event recorded in `stream` now."""
        event = self._call("cudaEventCreate")
        self._call("cudaEventRecord", event, stream)
        return event

    def between_ms(self, first: Any, second: Any) -> float:
        """Wait for the event `second` and return the milliseconds since `first`."""
        self._call("cudaEventSynchronize", second)
        return float(self._call("cudaEventElapsedTime", first, second))

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the library, which returns its status first and its result after it."""
        status, *found = getattr(self._cuda, name)(*arguments)
        if status != self._cuda.cudaError_t.cudaSuccess:
            text = self._cuda.cudaGetErrorString(status)[1]
            said = text.decode() if isinstance(text, bytes) else str(text)
            raise BuildError(
                f"CUDA refused {name}", value=f"{status}: {said}", fix="nvidia-smi tells whether the driver sees a GPU"
            )
        return found[0] if found else None


def _runtime() -> Any:
    """Its module has moved: ``cuda.bindings.runtime`` since 12.6, ``cuda.cudart`` before."""
    try:
        return import_module("cuda.bindings.runtime")
    except ModuleNotFoundError:
        return import_module("cuda.cudart")
