"""The real memory of a device over a fake of CUDA, or of pycuda's driver, that know whether the context is current."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_quant.backends.cuda import DeviceMemory, PycudaMemory
from tests.support.fake_tensorrt.cuda import FakeCuda, Kind, cudaError_t


class HostMemory(DeviceMemory):
    """Device memory that is memory of this process, on a device with room for `capacity_bytes`."""

    name = "host"

    def __init__(self, capacity_bytes: int = 1 << 30) -> None:
        self.cuda = FakeCuda(capacity_bytes)
        super().__init__(self.cuda, 0)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Count how deep the context is pushed: with pycuda nothing works outside."""
        self.cuda._contexts += 1
        try:
            with super().current():
                yield
        finally:
            self.cuda._contexts -= 1

    @property
    def depth(self) -> int:
        """How deep the context is pushed."""
        return self.cuda._contexts


class Error(Exception):
    """The base of pycuda's errors."""


class MemoryError(Error):  # noqa: A001 - pycuda's own name
    """No room."""


class LogicError(Error):
    """Anything that has no class of its own."""


class PycudaHost(PycudaMemory):
    """The real `PycudaMemory` over the fake driver, on a device with room for `capacity_bytes`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capacity_bytes: int = 1 << 30) -> None:
        self.cuda = FakeCuda(capacity_bytes)
        monkeypatch.setitem(sys.modules, "pycuda", ModuleType("pycuda"))
        monkeypatch.setitem(sys.modules, "pycuda.driver", make_driver(self.cuda))
        super().__init__(0)

    @property
    def depth(self) -> int:
        """How deep the context is pushed."""
        return self.cuda._contexts


class _Bound:
    """What a driver has, and the device that it drives."""

    _cuda: FakeCuda

    def _call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        status, *found = function(*arguments)
        if status == cudaError_t.cudaSuccess:
            return found
        text = self._cuda.cudaGetErrorString(status)[1] or b""
        kind = MemoryError if status == cudaError_t.cudaErrorMemoryAllocation else LogicError
        raise kind(f"{name} failed: {text.decode()}")

    def _destroy(self, function: Callable[[int], Any], handle: int) -> None:
        """Make the object's own context current for it, as pycuda does."""
        self._cuda._contexts += 1
        function(handle)
        self._cuda._contexts -= 1


class Context(_Bound):
    """The primary context."""

    def push(self) -> None:
        """Make it current."""
        self._cuda._contexts += 1

    @classmethod
    def pop(cls) -> None:
        """Make the one before it current."""
        cls._cuda._contexts -= 1


class Stream(_Bound):
    """A stream."""

    def __init__(self, flags: int = 0) -> None:
        assert flags == 0
        (self.handle,) = self._call("cuStreamCreate", self._cuda.cudaStreamCreate)

    def synchronize(self) -> None:
        """Wait for it."""
        self._call("cuStreamSynchronize", self._cuda.cudaStreamSynchronize, self.handle)

    def __del__(self) -> None:
        self._destroy(self._cuda.cudaStreamDestroy, self.handle)


class Event(_Bound):
    """An event."""

    def __init__(self) -> None:
        (self._event,) = self._call("cuEventCreate", self._cuda.cudaEventCreate)

    def record(self, stream: Stream) -> Event:
        """Record it."""
        self._call("cuEventRecord", self._cuda.cudaEventRecord, self._event, stream.handle)
        return self

    def synchronize(self) -> Event:
        """Wait for it."""
        self._call("cuEventSynchronize", self._cuda.cudaEventSynchronize, self._event)
        return self

    def time_till(self, event: Event) -> float:
        """Return milliseconds."""
        (found,) = self._call("cuEventElapsedTime", self._cuda.cudaEventElapsedTime, self._event, event._event)
        return float(found)

    def __del__(self) -> None:
        self._destroy(self._cuda.cudaEventDestroy, self._event)


class DeviceAllocation(_Bound):
    """A block of the device."""

    def __init__(self, size: int) -> None:
        (self._address,) = self._call("cuMemAlloc", self._cuda.cudaMalloc, size)

    def __int__(self) -> int:
        return int(self._address)

    def free(self) -> None:
        """Give it back."""
        self._call("cuMemFree", self._cuda.cudaFree, self._address)


class HostAllocation(_Bound):
    """Page-locked memory: the base of the array that is over it."""

    def __init__(self, size: int) -> None:
        (address,) = self._call("cuMemHostAlloc", self._cuda.cudaHostAlloc, size, 0)
        self._address = address
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}

    def free(self) -> None:
        """Give it back."""
        self._call("cuMemFreeHost", self._cuda.cudaFreeHost, self._address)


class Functions(_Bound):
    """The functions of the module, and its devices."""

    def init(self) -> None:
        """Find the driver."""

    def retain_primary_context(self) -> Context:
        """Return it, not current."""
        found: Context = _bound(Context, self._cuda)()
        return found

    def Device(self, number: int) -> Functions:  # noqa: N802 - pycuda's own name
        """Return one of the machine's devices."""
        if number:
            raise LogicError("cuDeviceGet failed: invalid device ordinal")
        return self

    def mem_get_info(self) -> tuple[int, int]:
        """Return free and all."""
        free, total = self._call("cuMemGetInfo", self._cuda.cudaMemGetInfo)
        return free, total

    def pagelocked_empty(self, shape: int, dtype: Any) -> NDArray[Any]:
        """Return an array over page-locked memory."""
        assert dtype is np.uint8
        return np.asarray(_bound(HostAllocation, self._cuda)(shape))

    def memcpy_htod_async(self, dest: int, src: NDArray[Any], stream: Stream) -> None:
        """Copy to the device."""
        self._copy("cuMemcpyHtoDAsync", dest, src.ctypes.data, src.nbytes, Kind.cudaMemcpyHostToDevice, stream)

    def memcpy_dtoh_async(self, dest: NDArray[Any], src: int, stream: Stream) -> None:
        """Copy from the device."""
        self._copy("cuMemcpyDtoHAsync", dest.ctypes.data, src, dest.nbytes, Kind.cudaMemcpyDeviceToHost, stream)

    def _copy(self, name: str, *arguments: Any) -> None:
        *places, stream = arguments
        self._call(name, self._cuda.cudaMemcpyAsync, *places, stream.handle)


def make_driver(cuda: FakeCuda) -> Any:
    """Return a module of its own over `cuda`."""
    module: Any = ModuleType("pycuda.driver")
    functions = _bound(Functions, cuda)()
    for name in dir(functions):
        if not name.startswith("_") and name != "retain_primary_context":
            setattr(module, name, getattr(functions, name))
    module.Error, module.MemoryError, module.LogicError = Error, MemoryError, LogicError
    module.Context, module.Stream, module.Event = _bound(Context, cuda), _bound(Stream, cuda), _bound(Event, cuda)
    module.mem_alloc = _bound(DeviceAllocation, cuda)
    return module


def _bound(kind: type[_Bound], cuda: FakeCuda) -> Any:
    return type(kind.__name__, (kind,), {"_cuda": cuda})
