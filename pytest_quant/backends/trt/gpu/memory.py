"""The part of a CUDA library that TensorRT's engines are run with."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from numpy.typing import NDArray


class DeviceMemory(Protocol):
    """The part of a CUDA library that is used. Addresses and streams are plain integers, as TensorRT takes them."""

    name: str

    def current(self) -> AbstractContextManager[None]:
        """Make the device's primary context current inside the block; other libraries of this process use it too."""

    def allocate(self, size_bytes: int) -> int:
        """Return the address of `size_bytes` of device memory."""

    def free(self, address: int) -> None:
        """Give back what `allocate` returned."""

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

    def mark(self, stream: int) -> Any:
        """Return an event recorded in `stream` now."""

    def between_ms(self, first: Any, second: Any) -> float:
        """Wait for the event `second` and return the milliseconds since `first`, by the device's clock."""
