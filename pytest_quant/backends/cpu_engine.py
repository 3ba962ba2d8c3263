"""What engines on the CPU have in common: no device memory, no device clock, and a ``with`` block."""

from __future__ import annotations

from typing import Self

from pytest_quant.backends.base import Feeds
from pytest_quant.result import DeviceTimes


class CpuEngine:
    """Base of engines whose memory is the process's own."""

    device_bytes: int | None = None
    threads: int | None = None
    """Processor threads of one run; latencies with other numbers of them are not compared."""

    def device_times(self, feeds: Feeds) -> DeviceTimes | None:  # noqa: ARG002
        """Return ``None``: the clock of the process is the only one."""
        return None

    def close(self) -> None:
        """Release the native memory; closing twice is harmless."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
