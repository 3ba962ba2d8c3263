"""Clocks of an NVIDIA GPU while it works, and what holds them down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pytest_quant.environment.gpu import cuda_gpu
from pytest_quant.environment.nvml import field, opened_nvml

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

_STEADY = 0.98
"""Lowest clock as a share of the highest above which it counts as steady: the step of a clock is below 1 %."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """A device at one moment. An instance of a split card (MIG) has the clocks of its card, as its neighbours have.

    Attributes
    ----------
    sm_mhz, memory_mhz : present clocks, ``None`` where the device does not tell.
    held_by : reasons for a lower clock, in words; empty when there are none, or none can be read.
    """

    sm_mhz: int | None
    memory_mhz: int | None
    held_by: tuple[str, ...] = ()


@contextmanager
def clock_reader(device: str) -> Iterator[Callable[[], Clocks] | None]:
    """Give a function that reads the clocks of ``cuda:0`` while the block runs; ``None`` where there are none to read.

    The number is CUDA's in this process, see `cuda_gpu`. NVML is opened once for all readings, and not at all for
    other devices.
    """
    if device.partition(":")[0] != "cuda":
        yield None
        return
    with opened_nvml() as nvml:
        gpu = None if nvml is None else cuda_gpu(device)
        card = None if nvml is None or gpu is None else field(nvml, nvml.nvmlDeviceGetHandleByUUID, gpu.card)
        yield None if card is None else lambda: _clocks(nvml, card)


def clock_notes(samples: Sequence[Clocks]) -> tuple[str, ...]:
    """Return a note where the clock was held down in some of the samples, or moved between them.

    Parameters
    ----------
    samples : taken at even distances while engines were timed.
    """
    if not samples:
        return ()
    span = _span([one.sm_mhz for one in samples if one.sm_mhz is not None])
    held = [reason for sample in samples for reason in sample.held_by]
    if held:
        each = ", ".join(f"{reason} {_percent(held.count(reason), samples)}" for reason in dict.fromkeys(held))
        share = _percent(sum(bool(one.held_by) for one in samples), samples)
        clock = "" if span is None else f", SM clock {_told(*span)}"
        return (f"GPU held down in {share} of {len(samples)} samples ({each}){clock}",)
    if span is not None and span[0] < _STEADY * span[1]:
        return (f"GPU clock moved: SM clock {_told(*span)} in {len(samples)} samples, held down by nothing",)
    return ()


def _span(clocks: Sequence[int]) -> tuple[int, int] | None:
    return (min(clocks), max(clocks)) if clocks else None


def _told(low: int, high: int) -> str:
    return f"{low} MHz" if low == high else f"{low} to {high} MHz"


def _percent(part: int, samples: Sequence[Clocks]) -> str:
    return f"{100 * part / len(samples):.0f} %"


def _clocks(nvml: Any, card: Any) -> Clocks:
    mask = field(nvml, nvml.nvmlDeviceGetCurrentClocksEventReasons, card)
    if mask is None:
        # Drivers before 535 know the function by its first name only.
        mask = field(nvml, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, card) or 0
    return Clocks(
        sm_mhz=field(nvml, nvml.nvmlDeviceGetClockInfo, card, nvml.NVML_CLOCK_SM),
        memory_mhz=field(nvml, nvml.nvmlDeviceGetClockInfo, card, nvml.NVML_CLOCK_MEM),
        held_by=tuple(word for bit, word in _THROTTLES.items() if mask & bit),
    )
