"""Device memory for the inputs and outputs of a TensorRT engine, by cuda-python or by pycuda."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import BuildError

if TYPE_CHECKING:
    import tensorrt


_TYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
}
"""TensorRT's own `nptype` fails for the other types, and old versions of it gave int32 for INT64."""


def numpy_type(tensor: str, data_type: object) -> np.dtype[Any]:
    """Return numpy's type for the ``DataType`` of `tensor`. Raises `BuildError` for one that numpy does not have."""
    name = str(data_type).rpartition(".")[2]
    if name not in _TYPES:
        raise BuildError(
            f"'{tensor}' of the engine is {name}, which numpy does not have",
            allowed=", ".join(_TYPES),
            fix="keep inputs and outputs of the model in float32",
        )
    return np.dtype(_TYPES[name])


@dataclass(frozen=True, slots=True)
class Slot:
    """One input or output.

    Attributes
    ----------
    dtype : the engine's own; INT64 stays INT64 since TensorRT 9 and was INT32 before.
    on_host : its values decide shapes, so TensorRT reads them from host memory.
    """

    name: str
    is_input: bool
    dtype: np.dtype[Any]
    on_host: bool


def slots_of(trt: Any, engine: tensorrt.ICudaEngine) -> tuple[Slot, ...]:
    """Return the inputs and outputs of `engine`, in its order. Raises `BuildError` for a type numpy does not have."""
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    return tuple(
        Slot(
            name=name,
            is_input=engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT,
            dtype=numpy_type(name, engine.get_tensor_dtype(name)),
            on_host=bool(engine.is_shape_inference_io(name)),
        )
        for name in names
    )


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
