"""A fake ``cuda.bindings.runtime``: memory of this process, and nothing done before somebody waits for the stream.

Its time is that of the device, which begins nothing before the host has put it into a stream: an event in an idle
stream is reached when it is recorded, and a kernel behind it only after the host's way to it.

It is strict where the library is: what it does not know it refuses, an allocation may find no room, and after an error
that breaks the context every later call gives that error.
"""

# ruff: noqa: N801, N802, N803, N815 - CUDA's own names

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import IntEnum
from functools import wraps
from typing import Any

ALIGNMENT = 256
PRIMARY = 1
"""The context that the libraries of a process share."""
Work = Callable[[], object]


class cudaError_t(IntEnum):
    """The codes that the fake gives, and those that break a context."""

    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2
    cudaErrorInvalidResourceHandle = 400
    cudaErrorNotReady = 600
    cudaErrorIllegalAddress = 700


class cudaMemcpyKind(IntEnum):
    """Directions of a copy."""

    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2


Code = cudaError_t
Kind = cudaMemcpyKind

_TEXTS = {
    cudaError_t.cudaErrorMemoryAllocation: b"out of memory",
    cudaError_t.cudaErrorIllegalAddress: b"an illegal memory access was encountered",
}


def _refusable(*, count: int) -> Callable[[Any], Any]:
    """Give what broke the context instead of calling; `count` results follow the status."""

    def around(call: Any) -> Any:
        @wraps(call)
        def guarded(self: FakeCuda, *arguments: Any) -> tuple[Any, ...]:
            self._need_context()
            status = self._broken
            if status is not None:
                return (status, *([None] * count))
            result: tuple[Any, ...] = call(self, *arguments)
            return result

        return guarded

    return around


class FakeCuda:
    """One process's view of one device with room for `capacity_bytes`."""

    cudaError_t = Code
    cudaMemcpyKind = Kind

    def __init__(self, capacity_bytes: int = 1 << 30) -> None:
        self._capacity_bytes = capacity_bytes
        self._lockable_bytes = 1 << 30
        self._blocks: dict[int, tuple[Any, int]] = {}
        self._pinned: dict[int, tuple[Any, int]] = {}
        self._queues: dict[int, list[Work]] = {}
        self._events: dict[int, float | None] = {}
        self._pending: dict[int, int] = {}
        self._handles = 7000
        self._clock_ms = 0.0
        self._host_ms = 0.0
        self._busy_ms = 0.0
        self._broken: Code | None = None
        self._contexts = 0
        self.context = 0
        self._pageable_copies = 0

    def cudaSetDevice(self, device: int) -> tuple[Code]:
        """Choose the device, whose primary context takes the place of the one that was current."""
        if device != 0:
            return (Code.cudaErrorInvalidValue,)
        self.context = PRIMARY
        return (self._broken or Code.cudaSuccess,)

    def cuCtxGetCurrent(self) -> tuple[int, int]:
        """Return the context that is current in the only thread; 0 for none."""
        return 0, self.context

    def cuCtxSetCurrent(self, context: int) -> tuple[int]:
        """Make another context current."""
        self.context = context
        return (0,)

    @_refusable(count=1)
    def cudaMalloc(self, size: int) -> tuple[Code, int | None]:
        """Return an aligned block, or say that there is no room."""
        if sum(taken for _, taken in self._blocks.values()) + size > self._capacity_bytes:
            return Code.cudaErrorMemoryAllocation, None
        return Code.cudaSuccess, _reserve(self._blocks, size)

    @_refusable(count=0)
    def cudaFree(self, devPtr: int) -> tuple[Code]:
        """Forget a block."""
        return (_known(self._blocks.pop(devPtr, None), Code.cudaErrorInvalidValue),)

    @_refusable(count=1)
    def cudaHostAlloc(self, size: int, flags: int) -> tuple[Code, int | None]:
        """Return locked memory of the host."""
        assert flags == 0
        if sum(taken for _, taken in self._pinned.values()) + size > self._lockable_bytes:
            return Code.cudaErrorMemoryAllocation, None
        return Code.cudaSuccess, _reserve(self._pinned, size)

    @_refusable(count=0)
    def cudaFreeHost(self, ptr: int) -> tuple[Code]:
        """Forget a block of the host."""
        return (_known(self._pinned.pop(ptr, None), Code.cudaErrorInvalidValue),)

    @_refusable(count=2)
    def cudaMemGetInfo(self) -> tuple[Code, int, int]:
        """Return free and all."""
        taken = sum(size for _, size in self._blocks.values())
        return Code.cudaSuccess, self._capacity_bytes - taken, self._capacity_bytes

    @_refusable(count=0)
    def cudaMemcpyAsync(self, dst: int, src: int, count: int, kind: Kind, stream: int) -> tuple[Code]:
        """Copy later; one end must be a block of the device."""
        inward = kind == Kind.cudaMemcpyHostToDevice
        if not self.holds(dst if inward else src, count):
            return (Code.cudaErrorInvalidValue,)
        self._pageable_copies += not _inside(self._pinned, src if inward else dst, count)
        return self.enqueue(stream, lambda: ctypes.memmove(dst, src, count))

    @_refusable(count=1)
    def cudaStreamCreate(self) -> tuple[Code, int | None]:
        """Return a new stream, which takes some memory of the device."""
        if not self._capacity_bytes:
            return Code.cudaErrorMemoryAllocation, None
        stream = self._new_handle()
        self._queues[stream] = []
        return Code.cudaSuccess, stream

    @_refusable(count=0)
    def cudaStreamDestroy(self, stream: int) -> tuple[Code]:
        """Forget it."""
        return (_known(self._queues.pop(stream, None), Code.cudaErrorInvalidResourceHandle),)

    @_refusable(count=0)
    def cudaStreamSynchronize(self, stream: int) -> tuple[Code]:
        """Do everything that was started."""
        if stream not in self._queues:
            return (Code.cudaErrorInvalidResourceHandle,)
        works, self._queues[stream] = self._queues[stream], []
        for work in works:
            if self._broken is None:
                work()
        self._host_ms = max(self._host_ms, self._clock_ms)
        return (self._broken or Code.cudaSuccess,)

    @_refusable(count=1)
    def cudaEventCreate(self) -> tuple[Code, int]:
        """Return a new event."""
        event = self._new_handle()
        self._events[event] = None
        return Code.cudaSuccess, event

    @_refusable(count=0)
    def cudaEventDestroy(self, event: int) -> tuple[Code]:
        """Forget it."""
        missing = object()
        result = self._events.pop(event, missing)
        return (_known(None if result is missing else True, Code.cudaErrorInvalidResourceHandle),)

    @_refusable(count=0)
    def cudaEventRecord(self, event: int, stream: int) -> tuple[Code]:
        """Note the time when the stream gets here."""
        if event not in self._events:
            return (Code.cudaErrorInvalidResourceHandle,)
        self._events[event] = None
        self._pending[event] = stream

        def reach() -> None:
            self._events[event] = self._clock_ms

        return self.enqueue(stream, reach)

    @_refusable(count=0)
    def cudaEventSynchronize(self, event: int) -> tuple[Code]:
        """Wait for the stream that it was recorded in."""
        if event not in self._pending:
            return (Code.cudaErrorInvalidResourceHandle,)
        result: tuple[Code] = self.cudaStreamSynchronize(self._pending[event])
        return result

    @_refusable(count=1)
    def cudaEventElapsedTime(self, start: int, end: int) -> tuple[Code, float | None]:
        """Both must have been reached."""
        if start not in self._events or end not in self._events:
            return Code.cudaErrorInvalidResourceHandle, None
        first, second = self._events[start], self._events[end]
        if first is None or second is None:
            return Code.cudaErrorNotReady, None
        return Code.cudaSuccess, second - first

    def cudaGetErrorString(self, error: Code) -> tuple[Code, bytes | None]:
        """Return the text of a code, as bytes."""
        return Code.cudaSuccess, _TEXTS.get(error, error.name.encode())

    def cudaGetLastError(self) -> tuple[Code]:
        """Give the last error, of which only one that broke the context stays."""
        return (self._broken or Code.cudaSuccess,)

    def enqueue(self, stream: int, work: Work) -> tuple[Code]:
        """Put `work` off."""
        self._need_context()
        if stream not in self._queues:
            return (Code.cudaErrorInvalidResourceHandle,)
        enqueued_ms = self._host_ms

        def begin() -> None:
            self._clock_ms = max(self._clock_ms, enqueued_ms)
            work()

        self._queues[stream].append(begin)
        return (Code.cudaSuccess,)

    def holds(self, address: int, size: int) -> bool:
        """Whether these bytes lie in a block of the device that nobody has freed."""
        return _inside(self._blocks, address, size)

    def break_context(self) -> None:
        """Meet an illegal address."""
        self._broken = Code.cudaErrorIllegalAddress

    def tick(self, ms: float) -> None:
        """Let time pass on the device, which computes."""
        self._clock_ms += ms
        self._busy_ms += ms

    def spend(self, ms: float) -> None:
        """Let time pass on the host, before what it puts into a stream next."""
        self._host_ms += ms

    def held(self) -> dict[str, int]:
        """Count what was made and not given back."""
        allocations: dict[str, dict[int, Any]] = {
            "blocks": self._blocks, "pinned": self._pinned, "streams": self._queues, "events": self._events,
        }  # fmt: skip
        return {name: len(result) for name, result in allocations.items() if result}

    def _need_context(self) -> None:
        assert self._contexts > 0, "the primary context is not current"
        assert self.context == PRIMARY, "a context of somebody else's is current"

    def _new_handle(self) -> int:
        self._handles += 1
        return self._handles


def _reserve(blocks: dict[int, tuple[Any, int]], size: int) -> int:
    block = ctypes.create_string_buffer(size + ALIGNMENT)
    address = -(-ctypes.addressof(block) // ALIGNMENT) * ALIGNMENT
    blocks[address] = (block, size)
    return address


def _inside(blocks: dict[int, tuple[Any, int]], address: int, size: int) -> bool:
    return any(start <= address and address + size <= start + room for start, (_, room) in blocks.items())


def _known(value: object, otherwise: Code) -> Code:
    return otherwise if value is None else Code.cudaSuccess
