"""Memory, streams and events of a GPU, by pycuda or by cuda-python, behind one set of words."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any, Protocol

from numpy.typing import NDArray

from pytest_quant.errors import BackendUnavailable

_FIX = 'pip install "pytest-quant[trt]", which brings cuda-python; pycuda serves too, and needs nvcc and a compiler'


class DeviceMemory(Protocol):
    """What is asked of a CUDA library. Addresses and streams are plain integers, as TensorRT takes them."""

    name: str

    def current(self) -> AbstractContextManager[None]:
        """Make the device's primary context current inside the block; other libraries of this process use it too."""

    def allocate(self, size_bytes: int) -> int:
        """Return the address of `size_bytes` of device memory."""

    def free(self, address: int) -> None:
        """Give back what `allocate` returned."""

    def copy_in(self, address: int, array: NDArray[Any], stream: int) -> None:
        """Copy a contiguous array to the device, in the order of `stream`."""

    def copy_out(self, array: NDArray[Any], address: int, stream: int) -> None:
        """Copy from the device into a contiguous array, in the order of `stream`."""

    def new_stream(self) -> int:
        """Return a stream of its own: the default stream waits for all others."""

    def end_stream(self, stream: int) -> None:
        """Give back what `new_stream` returned."""

    def wait(self, stream: int) -> None:
        """Wait until everything in `stream` is done. Raises `BuildError` when some of it failed."""

    def mark(self, stream: int) -> Any:
        """Return an event recorded in `stream` now."""

    def between_ms(self, first: Any, second: Any) -> float:
        """Wait for the event `second` and return the milliseconds since `first`, by the device's clock."""


def open_device(index: int = 0) -> DeviceMemory:
    """Return the memory of GPU `index`: by pycuda where it is installed, else by cuda-python.

    Raises
    ------
    BackendUnavailable : neither is installed and loads.
    BuildError : the driver refuses the device.
    """
    said = []
    if find_spec("pycuda") is not None:
        from pytest_quant.backends.trt.gpu.pycuda_memory import PycudaMemory

        try:
            return PycudaMemory(index)
        except ImportError as error:
            said.append(f"pycuda: {error}")
    if find_spec("cuda") is not None:
        from pytest_quant.backends.trt.gpu.cuda_python_memory import CudaPythonMemory

        try:
            return CudaPythonMemory(index)
        except ImportError as error:
            said.append(f"cuda-python: {error}")
    raise BackendUnavailable(
        "TensorRT needs a library for device memory",
        value="; ".join(said) or "neither pycuda nor cuda-python",
        fix=_FIX,
    )
