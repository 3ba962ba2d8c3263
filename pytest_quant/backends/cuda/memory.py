"""The part of a CUDA library that TensorRT's engines are run with, and what its errors mean."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import BuildError

MEGABYTE = 1e6
GRAPH_NOTE = "timed runs replay a CUDA graph"


class DeviceMemory(Protocol):
    """Memory, streams and events of one device, one object for each device in a process.

    Addresses and streams are plain integers, as TensorRT takes them. Every method but `current` needs the context
    current, and raises `BuildError` when CUDA refuses. After an error that CUDA cannot recover from, what gives
    something back does nothing: the driver takes all of it when the process ends.

    Attributes
    ----------
    name : of the library.
    """

    name: str

    def current(self) -> AbstractContextManager[None]:
        """Make the device's primary context current inside the block; other libraries of this process use it too."""

    def check(self) -> None:
        """Raise `BuildError` when an error of before has broken the context of this process."""

    def allocate(self, size_bytes: int) -> int:
        """Return the address of `size_bytes` of device memory."""

    def free(self, address: int) -> None:
        """Give back what `allocate` returned."""

    def lock(self, size_bytes: int) -> NDArray[np.uint8]:
        """Return memory of the host that the device reads and writes itself; other memory is copied twice."""

    def unlock(self, array: NDArray[np.uint8]) -> None:
        """Give back what `lock` returned; it must not be read after."""

    def copy_in(self, address: int, array: NDArray[Any], stream: int) -> None:
        """Start a copy of an array to the device.

        Parameters
        ----------
        address : of device memory that `allocate` returned, with room for the whole array.
        array : in host memory, C-contiguous, of any dtype; it must live until the copy is done, see `wait`.
        stream : one that `new_stream` returned; the copy waits for what was started in it before.
        """

    def copy_out(self, array: NDArray[Any], address: int, stream: int) -> None:
        """Start a copy from the device into an array, which is filled after `wait`.

        Parameters
        ----------
        array : in host memory, C-contiguous, of any dtype; its size is the size of the copy.
        address : of device memory that `allocate` returned.
        stream : one that `new_stream` returned; the copy waits for what was started in it before.
        """

    def new_stream(self) -> int:
        """Return a stream of its own: the default stream waits for all others."""

    def end_stream(self, stream: int) -> None:
        """Give back what `new_stream` returned."""

    def wait(self, stream: int) -> None:
        """Wait until everything in `stream` is done. Raises `BuildError` when some of it failed."""

    def new_event(self) -> Any:
        """Return an event, which can be recorded many times."""

    def end_event(self, event: Any) -> None:
        """Give back what `new_event` returned."""

    def record(self, event: Any, stream: int) -> None:
        """Let `event` hold the time at which `stream` gets here."""

    def between_ms(self, first: Any, second: Any) -> float:
        """Wait for the event `second` and return the milliseconds since `first`, by the device's clock."""

    def capture(self, stream: int, start: Callable[[], None]) -> Any:
        """Return a graph of what `start` puts into `stream`, which is not done now.

        Raises
        ------
        BuildError : the library has no graphs, or `start` did what cannot be captured.
        """

    def launch(self, graph: Any, stream: int) -> None:
        """Do in `stream` what `capture` kept, at the same addresses."""

    def end_graph(self, graph: Any) -> None:
        """Give back what `capture` returned."""


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


class OutOfMemoryError(BuildError):
    """An allocation found no room; the process goes on."""


def out_of_memory(call: str, size_bytes: int, free_bytes: int, total_bytes: int) -> OutOfMemoryError:
    """Return the error for a call that found no room on the device.

    Parameters
    ----------
    call : the function that was refused.
    size_bytes : asked of it; 0 for one that takes what it needs.
    free_bytes, total_bytes : what the device has, as CUDA says.
    """
    request = f"{call} of {size_bytes / MEGABYTE:.1f} MB" if size_bytes else call
    return OutOfMemoryError(
        "the GPU is out of memory",
        value=f"{request}, while {free_bytes / MEGABYTE:.1f} MB of {total_bytes / MEGABYTE:.1f} MB are free",
        fix="nvidia-smi tells who holds it; smaller batches, fewer workers (-n) and closed engines need less",
    )


def nothing_to_lock(call: str, size_bytes: int) -> OutOfMemoryError:
    """Return the error for `call`, to which the host gave no `size_bytes` of page-locked memory."""
    return OutOfMemoryError(
        "there is no more page-locked memory of the host, from which a GPU copies",
        value=f"{call} of {size_bytes / MEGABYTE:.1f} MB",
        fix="smaller batches need less; limits on it are those of the container and of 'ulimit -l'",
    )


def broken_context(first: str) -> BuildError:
    """Return the error for every call after `first`, an error that CUDA cannot recover from."""
    return BuildError(
        "this process can no longer use the GPU: CUDA does not recover from the error that it met",
        value=first,
        fix="what comes after it on the GPU fails too: run the test that met it first by itself, in a new process; "
        "compute-sanitizer names the kernel",
    )
