"""Device memory, streams and events by cuda-bindings, the library of NVIDIA's own samples."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends.cuda.memory import broken_context, nothing_to_lock, out_of_memory
from pytest_quant.errors import BuildError

STICKY = frozenset(
    {
        "cudaErrorAssert",
        "cudaErrorContained",
        "cudaErrorExternalDevice",
        "cudaErrorHardwareStackError",
        "cudaErrorIllegalAddress",
        "cudaErrorIllegalInstruction",
        "cudaErrorInvalidAddressSpace",
        "cudaErrorInvalidPc",
        "cudaErrorLaunchFailure",
        "cudaErrorLaunchTimeout",
        "cudaErrorMisalignedAddress",
        "cudaErrorMpsClientTerminated",
        "cudaErrorTensorMemoryLeak",
    }
)
"""Errors of which CUDA says that the process must be ended and started again."""


_FIX = "nvidia-smi tells whether the driver sees a GPU"
_FIXES = {"cudaErrorInsufficientDriver": 'a newer driver, or where it has CUDA 12 pip install "cuda-bindings<13"'}


class CudaPythonMemory:
    """The device `index` by `cuda`, the module that `load_runtime` gives. Raises `BuildError` when there is none."""

    name = "cuda-bindings"

    def __init__(self, cuda: Any, index: int) -> None:
        self._cuda = cuda
        self._index = index
        self._broken = ""
        self._locked: dict[int, NDArray[np.uint8]] = {}
        self._call("cudaSetDevice", index)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Choose the device for this thread; its primary context comes with it."""
        self._unless_broken("cudaSetDevice", self._index)
        yield

    def check(self) -> None:
        """Raise `BuildError` when an error of before has broken the context of this process."""
        if self._broken:
            raise broken_context(self._broken)

    def allocate(self, size_bytes: int) -> int:
        """Return the address of `size_bytes` of device memory."""
        return int(self._call("cudaMalloc", size_bytes))

    def free(self, address: int) -> None:
        """Give back what `allocate` returned."""
        self._unless_broken("cudaFree", address)

    def lock(self, size_bytes: int) -> NDArray[np.uint8]:
        """Return `size_bytes` of page-locked memory."""
        address = int(self._call("cudaHostAlloc", size_bytes, 0))
        array = np.ctypeslib.as_array((ctypes.c_uint8 * size_bytes).from_address(address))
        self._locked[address] = array
        return array

    def unlock(self, array: NDArray[np.uint8]) -> None:
        """Give back what `lock` returned."""
        address = array.ctypes.data
        del self._locked[address]
        self._unless_broken("cudaFreeHost", address)

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
        """Wait for the event `second` and return the milliseconds since `first`."""
        self._call("cudaEventSynchronize", second)
        return float(self._call("cudaEventElapsedTime", first, second))

    def capture(self, stream: int, start: Callable[[], None]) -> Any:
        """Return an executable graph of what `start` puts into `stream`."""
        # Other threads may go on; what this one does meanwhile is all that can spoil the capture.
        mode = self._cuda.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        self._call("cudaStreamBeginCapture", stream, mode)
        try:
            start()
        except BaseException:
            self._leave_capture(stream)
            raise
        graph = self._call("cudaStreamEndCapture", stream)
        try:
            return self._call("cudaGraphInstantiate", graph, 0)
        finally:
            self._unless_broken("cudaGraphDestroy", graph)

    def _leave_capture(self, stream: int) -> None:
        """End a capture that failed; the graph of one that CUDA itself holds for valid is of no use."""
        status, graph = self._cuda.cudaStreamEndCapture(stream)
        if status == self._cuda.cudaError_t.cudaSuccess:
            self._unless_broken("cudaGraphDestroy", graph)
        self._cuda.cudaGetLastError()

    def launch(self, graph: Any, stream: int) -> None:
        """Do in `stream` what `capture` kept."""
        self._call("cudaGraphLaunch", graph, stream)

    def end_graph(self, graph: Any) -> None:
        """Give back what `capture` returned."""
        self._unless_broken("cudaGraphExecDestroy", graph)

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
            if name == "cudaHostAlloc":
                return nothing_to_lock(name, arguments[0])
            _, free, total = self._cuda.cudaMemGetInfo()
            return out_of_memory(name, arguments[0] if name == "cudaMalloc" else 0, free, total)
        return BuildError(f"CUDA refused {name}", value=said, fix=_FIXES.get(status.name, _FIX))


def load_runtime() -> Any:
    """Return CUDA's runtime: ``cuda.bindings.runtime`` since 12.6, ``cuda.cudart`` before. Raises `ImportError`."""
    try:
        return import_module("cuda.bindings.runtime")
    except ModuleNotFoundError:
        return import_module("cuda.cudart")
