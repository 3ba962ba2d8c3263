"""The state of an NVIDIA GPU at one moment: clocks, what holds them down, memory and energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pytest_quant.environment.nvml import opened_nvml

_THROTTLES = {
    "SwPowerCap": "power limit",
    "HwSlowdown": "hardware slowdown",
    "SwThermalSlowdown": "software thermal slowdown",
    "HwThermalSlowdown": "hardware thermal slowdown",
    "HwPowerBrakeSlowdown": "power brake",
    "ApplicationsClocksSetting": "application clocks",
}
"""NVML's names of reasons for a lower clock, without their prefix, and our words; idle is not one."""


@dataclass(frozen=True, slots=True)
class GpuState:
    """A device at one moment.

    Attributes
    ----------
    sm_mhz, memory_mhz : present clocks.
    throttled_by : reasons for a lower clock, in words; empty when there are none.
    used_mb : device memory in use by all processes, 10^6 bytes.
    energy_mj : millijoules since the driver was loaded, ``None`` on devices without a counter.
    """

    sm_mhz: int
    memory_mhz: int
    throttled_by: tuple[str, ...]
    used_mb: float
    energy_mj: float | None


def gpu_state(device: str) -> GpuState | None:
    """Return the state of a device such as ``cuda:0``; ``None`` for other devices, or when NVML cannot read it."""
    kind, _, index = device.partition(":")
    if kind != "cuda":
        return None
    with opened_nvml() as nvml:
        if nvml is None:
            return None
        try:
            return _state(nvml, nvml.nvmlDeviceGetHandleByIndex(int(index or 0)))
        except nvml.NVMLError:
            return None


def clock_notes(before: GpuState, after: GpuState) -> tuple[str, ...]:
    """Return notes on a changed clock between two states, and on reasons for a lower clock in either."""
    notes = [f"GPU held down by {reason}" for reason in dict.fromkeys((*before.throttled_by, *after.throttled_by))]
    if before.sm_mhz != after.sm_mhz:
        notes.append(f"GPU clock moved from {before.sm_mhz} to {after.sm_mhz} MHz")
    return tuple(notes)


def _state(nvml: Any, handle: Any) -> GpuState:
    mask = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    held = [word for name, word in _THROTTLES.items() if mask & getattr(nvml, f"nvmlClocksThrottleReason{name}", 0)]
    try:
        energy_mj: float | None = float(nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
    except nvml.NVMLError:
        energy_mj = None
    return GpuState(
        sm_mhz=nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        memory_mhz=nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        throttled_by=tuple(held),
        used_mb=nvml.nvmlDeviceGetMemoryInfo(handle).used / 1e6,
        energy_mj=energy_mj,
    )
