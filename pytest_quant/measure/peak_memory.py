"""Memory that a block of code adds, of the process and of its device."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from pytest_quant.environment.gpu_memory import process_memory_mb

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""Written to ``clear_refs``, sets the kernel's peak (VmHWM) to the present size; see proc(5)."""
BYTES_PER_MB = 1e6
_INEXACT_BYTES = 8_000_000
"""Tolerance between size and peak: the kernel counts pages per thread and adds them up late."""


class PeakMemory:
    """``with PeakMemory() as memory: ...`` then ``memory.peak_mb``: megabytes (10^6 bytes) added at the peak.

    Memory that Python already held and reuses does not count as added, so the figure is a lower bound. It is the
    kernel's own peak; ``None`` where that cannot be reset, as in some sandboxes.
    Blocks must not be nested: an inner block resets the peak of the outer one.
    """

    def __init__(self) -> None:
        self.peak_mb: float | None = None
        self._start_bytes: int | None = None

    def __enter__(self) -> Self:
        """Start from the present size."""
        self._start_bytes = _reset_peak()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Read the peak."""
        if self._start_bytes is not None:
            self.peak_mb = max(0, _status_bytes("VmHWM:") - self._start_bytes) / BYTES_PER_MB


def _reset_peak() -> int | None:
    """Set the kernel's peak to the present size, and return it in bytes; ``None`` where the kernel does not."""
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK)
        size, peak = _status_bytes("VmRSS:"), _status_bytes("VmHWM:")
    except OSError:
        return None
    # Some sandboxes accept the write and keep the old peak.
    return size if peak <= size + _INEXACT_BYTES else None


def _status_bytes(field: str) -> int:
    for line in _STATUS.read_text("ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f"{_STATUS} has no {field}")


class AddedMemory:
    """``with AddedMemory("cuda:0") as memory: ...`` then megabytes of 10^6 bytes, ``None`` where it is not measured.

    Memory of the device is what this process holds after the block less what it held before, so that neighbours on a
    card do not count. It is not known where the driver does not tell it for each process.

    Attributes
    ----------
    process_mb, device_mb : what the block added to the process, and on its device.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._peak = PeakMemory()
        self.process_mb: float | None = None
        self.device_mb: float | None = None

    def __enter__(self) -> Self:
        """Start from what is used now."""
        self._before_mb = process_memory_mb(self._device)
        self._peak.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Read the added memory."""
        self._peak.__exit__(kind, error, traceback)
        after_mb = process_memory_mb(self._device)
        # A process that is listed afterwards and was not before held nothing then.
        self.device_mb = None if after_mb is None else max(0.0, after_mb - (self._before_mb or 0.0))
        self.process_mb = self._peak.peak_mb
