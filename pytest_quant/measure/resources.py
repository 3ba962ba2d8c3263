"""Resources that a block of code uses: memory of process and device, and energy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from pytest_quant.environment.gpu_state import gpu_state

POWERCAP = Path("/sys/class/powercap")


@dataclass(frozen=True, slots=True)
class RaplReading:
    """Energy counter of each CPU package in microjoules, and the value after which it restarts from 0."""

    energy_uj: tuple[int, ...]
    range_uj: tuple[int, ...]


def read_rapl(root: Path = POWERCAP) -> RaplReading | None:
    """Read the counters of all CPU packages; ``None`` where there are none or they are not readable.

    Most systems let only root read them, and virtual machines have none.
    """
    packages = sorted(root.glob("intel-rapl:[0-9]*"))
    packages = [package for package in packages if package.name.count(":") == 1]
    try:
        energy = tuple(_number(package / "energy_uj") for package in packages)
        limits = tuple(_number(package / "max_energy_range_uj") for package in packages)
    except (OSError, ValueError):
        return None
    return RaplReading(energy, limits) if energy else None


def spent_mj(before: RaplReading, after: RaplReading) -> float:
    """Return the millijoules between two readings of the same packages; a counter may wrap around once."""
    turns = zip(before.energy_uj, after.energy_uj, after.range_uj, strict=True)
    return sum(end - start if end >= start else end - start + turn for start, end, turn in turns) / 1e3


def _number(file: Path) -> int:
    return int(file.read_text("ascii"))


MIN_S = 0.5
"""RAPL updates every millisecond and NVML every 20 to 100 ms; half a second makes either step small."""

Counter = Callable[[], float | None]
"""Returns the millijoules spent since the counter was created, ``None`` where they cannot be read."""


def device_counter(device: str) -> Counter | None:
    """Return an energy counter that starts now, for ``cpu`` or ``cuda:0``; ``None`` for a device without one."""
    if device == "cpu":
        start = read_rapl()
        if start is None:
            return None

        def cpu_mj() -> float | None:
            now = read_rapl()
            return None if now is None else spent_mj(start, now)

        return cpu_mj
    before = gpu_state(device)
    if before is None or before.energy_mj is None:
        return None
    first_mj = before.energy_mj

    def gpu_mj() -> float | None:
        now = gpu_state(device)
        return None if now is None or now.energy_mj is None else now.energy_mj - first_mj

    return gpu_mj


def measure_energy(
    call: Callable[[], object],
    device: str,
    *,
    counter: Callable[[str], Counter | None] = device_counter,
    clock: Callable[[], float] = time.perf_counter,
    min_s: float = MIN_S,
) -> float | None:
    """Return the millijoules of one run: those of the device over many runs, divided by their number.

    The consumption of the idle device and of other processes is part of it.

    Parameters
    ----------
    call : one run.
    device : ``cpu`` or ``cuda:0``.
    counter : starts the energy counter of a device.
    clock : seconds.
    min_s : shortest duration of all runs in seconds.

    Returns
    -------
    ``None`` for a device without an energy counter.
    """
    spent = counter(device)
    if spent is None:
        return None
    started, runs = clock(), 0
    while runs == 0 or clock() - started < min_s:
        call()
        runs += 1
    total_mj = spent()
    return None if total_mj is None else total_mj / runs


_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""Written to ``clear_refs``, sets the kernel's peak (VmHWM) to the present size; see proc(5)."""
_SAMPLE_EVERY_S = 0.005
BYTES_PER_MB = 1e6
_INEXACT_BYTES = 8_000_000
"""Tolerance between size and peak: the kernel counts pages per thread and adds them up late."""


class PeakMemory:
    """``with PeakMemory() as memory: ...`` then ``memory.peak_mb``: megabytes (10^6 bytes) added at the peak.

    Memory that Python already held and reuses does not count as added, so the figure is a lower bound. The kernel's
    own peak is read where it can be reset, else the size is sampled; ``None`` where neither is possible.
    Blocks must not be nested: an inner block resets the peak of the outer one.
    """

    def __init__(self) -> None:
        self.peak_mb: float | None = None
        self._start_bytes: int | None = None
        self._sampler: _Sampler | None = None

    def __enter__(self) -> Self:
        """Start from the present size."""
        self._start_bytes = _reset_peak()
        if self._start_bytes is None:
            with suppress(psutil.Error):
                self._sampler = _Sampler()
                self._start_bytes = self._sampler.peak_bytes
                self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Read the peak."""
        if self._start_bytes is not None:
            peak_bytes = _status_bytes("VmHWM:") if self._sampler is None else self._sampler.finish()
            self.peak_mb = max(0, peak_bytes - self._start_bytes) / BYTES_PER_MB


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


class _Sampler(threading.Thread):
    """Samples the size of the process until `finish` is called, and keeps the largest."""

    def __init__(self) -> None:
        super().__init__(name="quant-memory", daemon=True)
        self._process = psutil.Process()
        self._done = threading.Event()
        self.peak_bytes = self._size_bytes()

    def run(self) -> None:
        while not self._done.wait(_SAMPLE_EVERY_S):
            self.peak_bytes = max(self.peak_bytes, self._size_bytes())

    def finish(self) -> int:
        """Stop and return the largest size."""
        self._done.set()
        self.join()
        return max(self.peak_bytes, self._size_bytes())

    def _size_bytes(self) -> int:
        return int(self._process.memory_info().rss)


@dataclass(frozen=True, slots=True)
class MemoryAdded:
    """Memory added by a block of code, in megabytes of 10^6 bytes; ``None`` where it is not measured."""

    process_mb: float | None
    device_mb: float | None


class AddedMemory:
    """``with AddedMemory("cuda:0") as memory: ...`` then ``memory.added``."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._peak = PeakMemory()
        self.added = MemoryAdded(None, None)

    def __enter__(self) -> Self:
        """Start from what is used now."""
        self._before_mb = self._used_mb()
        self._peak.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Read the added memory. That of the device includes other processes, since NVML gives its total only."""
        self._peak.__exit__(kind, error, traceback)
        before_mb, after_mb = self._before_mb, self._used_mb()
        device_mb = None if before_mb is None or after_mb is None else max(0.0, after_mb - before_mb)
        self.added = MemoryAdded(self._peak.peak_mb, device_mb)

    def _used_mb(self) -> float | None:
        state = gpu_state(self._device)
        return None if state is None else state.used_mb
