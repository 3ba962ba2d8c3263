"""The real memory of a device over a fake of CUDA that knows whether the context is current."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_quant.backends.cuda import DeviceMemory
from tests.support.fake_tensorrt.cuda import FakeCuda


class HostMemory(DeviceMemory):
    """Device memory that is memory of this process, on a device with room for `capacity_bytes`."""

    name = "host"

    def __init__(self, capacity_bytes: int = 1 << 30) -> None:
        self.cuda = FakeCuda(capacity_bytes)
        super().__init__(self.cuda, self.cuda, 0)

    @property
    def depth(self) -> int:
        """How deep the context is pushed."""
        return self.cuda._contexts

    @contextmanager
    def current(self) -> Iterator[None]:
        """Count how deep the context is pushed: with pycuda nothing works outside."""
        self.cuda._contexts += 1
        try:
            with super().current():
                yield
        finally:
            self.cuda._contexts -= 1
