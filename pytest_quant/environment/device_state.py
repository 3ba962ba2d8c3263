"""What a device says while engines run on it: its energy, its clocks, its memory, and who else has it open.

Other processes keep no lock of ours, and may slow a GPU down as its own limits do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from pytest_quant.environment.gpu import field, open_gpu
from pytest_quant.host import POWER_FOLDER

Packages = tuple[tuple[int, int], ...]
"""Energy counter of each CPU package in microjoules, and the value after which it restarts from 0."""

Counter = Callable[[], float | None]
"""Returns millijoules from any start, never going back; ``None`` where they cannot be read."""


@contextmanager
def energy_counter(device: str) -> Iterator[Counter | None]:
    """Give the counter of ``cpu`` or ``cuda:0`` while the block runs; ``None`` for a device without one.

    It steps: RAPL about every millisecond, NVML every 20 to 100 ms. A part of a split card (MIG) has the counter of the
    whole card, its neighbours included.
    """
    if device == "cpu":
        yield _package_counter()
        return
    with open_gpu(device, card=True) as opened:
        yield None if opened is None else lambda: _spent_energy(*opened)


def _spent_energy(nvml: Any, card: Any) -> float | None:
    return field(nvml, nvml.nvmlDeviceGetTotalEnergyConsumption, card)


def _package_counter() -> Counter | None:
    last = read_rapl()
    if last is None:
        return None
    total_mj = 0.0

    def read() -> float | None:
        nonlocal last, total_mj
        now = read_rapl()
        if now is None or last is None:
            return None
        # Added up, because a package's counter starts again within the hour.
        total_mj += spent_mj(last, now)
        last = now
        return total_mj

    return read


def read_rapl(root: Path = POWER_FOLDER) -> Packages | None:
    """Read RAPL's counters of all CPU packages; ``None`` if they are missing or not readable.

    Most systems let only root read them, and virtual machines have none.
    """
    folders = [folder for folder in sorted(root.glob("intel-rapl:[0-9]*")) if folder.name.count(":") == 1]
    try:
        packages = tuple((_number(folder / "energy_uj"), _number(folder / "max_energy_range_uj")) for folder in folders)
    except (OSError, ValueError):
        return None
    return packages or None


def _number(file: Path) -> int:
    return int(file.read_text("ascii"))


def spent_mj(before: Packages, after: Packages) -> float:
    """Return the millijoules between two readings of the same packages; a counter may wrap around once."""
    pairs = zip(before, after, strict=True)
    return sum(end - start + (turn if end < start else 0) for (start, _), (end, turn) in pairs) / 1e3


_THROTTLES = {
    0x04: "power limit",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Bits of NVML for reasons that lower a clock while the GPU works, and our words.

Idling is none; nor are clocks that somebody has set, which stay where they are.
"""


class Clocks(NamedTuple):
    """A device at one moment. An instance of a split card (MIG) has the clocks of its card, as its neighbours have.

    Attributes
    ----------
    sm_mhz : present clock, ``None`` where the device does not tell.
    held_by : reasons for a lower clock, in words; empty when there are none, or none can be read.
    """

    sm_mhz: int | None
    held_by: tuple[str, ...] = ()


@contextmanager
def clock_reader(device: str) -> Iterator[Callable[[], Clocks] | None]:
    """Give a function that reads the clocks of ``cuda:0`` while the block runs; ``None`` without clocks.

    NVML is opened once for all readings.
    """
    with open_gpu(device, card=True) as opened:
        yield None if opened is None else lambda: _clocks(*opened)


def _clocks(nvml: Any, card: Any) -> Clocks:
    # Drivers before 535 know the function by its first name only.
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    mask = next((mask for name in names if (mask := field(nvml, getattr(nvml, name), card)) is not None), 0)
    held_by = tuple(word for bit, word in _THROTTLES.items() if mask & bit)
    return Clocks(field(nvml, nvml.nvmlDeviceGetClockInfo, card, nvml.NVML_CLOCK_SM), held_by)


def clock_notes(samples: Sequence[Clocks]) -> tuple[str, ...]:
    """Return a note if the clock was held down in some of the samples, or moved between them.

    Parameters
    ----------
    samples : taken at even distances while engines were timed.
    """

    def share(reason: str | None = None) -> str:
        held = sum(bool(sample.held_by) if reason is None else reason in sample.held_by for sample in samples)
        return f"{100 * held / len(samples):.0f} %"

    clocks = sorted({sample.sm_mhz for sample in samples if sample.sm_mhz is not None})
    span = " to ".join(map(str, [clocks[0], clocks[-1]][: len(clocks)])) if clocks else ""
    reasons = dict.fromkeys(reason for sample in samples for reason in sample.held_by)
    if reasons:
        each = ", ".join(f"{reason} {share(reason)}" for reason in reasons)
        clock = f", SM clock {span} MHz" if span else ""
        return (f"GPU held down in {share()} of {len(samples)} samples ({each}){clock}",)
    # The step of a clock is below 1 %.
    if clocks and clocks[0] < 0.98 * clocks[-1]:
        return (f"GPU clock moved: SM clock {span} MHz in {len(samples)} samples, held down by nothing",)
    return ()


def process_memory_mb(device: str) -> float | None:
    """Return the device memory of this process, 10^6 bytes, with its CUDA context and what allocators keep.

    Parameters
    ----------
    device : ``cuda:0``. Other devices are no GPUs.

    Returns
    -------
    ``None`` where the driver does not tell: for a process that has nothing on the device, and in containers that have
    process numbers of their own.
    """
    held = [process.usedGpuMemory for process in _processes(device, "Compute") if process.pid == os.getpid()]
    return None if not held or None in held else sum(held) / 1e6


def gpu_neighbours(device: str) -> dict[int, str]:
    """Return the names of other processes with a context on `device` by their numbers, without this run's own.

    Nothing where this process is not listed itself: in a container NVML lists the numbers of the host, or none.

    Parameters
    ----------
    device : ``cuda:0``, where this process has a context. Other devices are no GPUs.
    """
    # Clients of MPS are in a list of their own.
    pids = {process.pid for process in _processes(device, "Compute", "MPSCompute")}
    if os.getpid() not in pids:
        return {}
    others = pids - _own_processes()
    return {
        process.pid: process.info["name"] or "?" for process in psutil.process_iter(["name"]) if process.pid in others
    }


def neighbour_notes(neighbours: Mapping[int, str]) -> tuple[str, ...]:
    """Return a note on the processes that had the GPU open before or after timing; nothing without such processes."""
    named = ", ".join(f"{pid} ({neighbours[pid]})" for pid in sorted(neighbours))
    return (f"shared GPU: other processes have it open: {named}",) if named else ()


def _own_processes() -> set[int]:
    """Return this process, those above it that run the same Python, as a controller of workers does, and all below."""
    top = psutil.Process()
    with suppress(psutil.Error):  # it is another user's, or has ended
        while (parent := top.parent()) is not None and parent.exe() == top.exe():
            top = parent
    return {top.pid, *(process.pid for process in top.children(recursive=True))}


def _processes(device: str, *kinds: str) -> list[Any]:
    """Return the processes of these `kinds` that NVML lists for a device; none if the driver does not report them."""
    with open_gpu(device, card=False) as opened:
        if opened is None:
            return []
        nvml, own = opened
        lists = [getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses_v3") for kind in kinds]
        return [process for read in lists for process in field(nvml, read, own) or ()]
