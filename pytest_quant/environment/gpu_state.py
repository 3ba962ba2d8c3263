"""The state of an NVIDIA GPU at one moment: clocks, what holds them down, memory and energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pytest_quant.environment.gpu import cuda_gpu
from pytest_quant.environment.nvml import field, opened_nvml

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
    """A device at one moment. Each field is ``None`` where the device does not support it.

    Attributes
    ----------
    sm_mhz, memory_mhz : present clocks.
    throttled_by : reasons for a lower clock, in words; empty when there are none, or none can be read.
    used_mb : device memory in use by all processes, 10^6 bytes; of an instance (MIG) its own.
    energy_mj : millijoules since the driver was loaded.

    An instance of a split card has the clocks, the reasons and the energy of its card, which its neighbours share.
    """

    sm_mhz: int | None
    memory_mhz: int | None
    throttled_by: tuple[str, ...]
    used_mb: float | None
    energy_mj: float | None


def gpu_state(device: str) -> GpuState | None:
    """Return the state of a device such as ``cuda:0``; ``None`` for other devices, and where NVML does not know it.

    The number is CUDA's in this process, see `cuda_gpu`.
    """
    if device.partition(":")[0] != "cuda":
        return None
    with opened_nvml() as nvml:
        gpu = None if nvml is None else cuda_gpu(device)
        if nvml is None or gpu is None:
            return None
        return _state(nvml, *(field(nvml, nvml.nvmlDeviceGetHandleByUUID, uuid) for uuid in (gpu.uuid, gpu.card)))


def clock_notes(before: GpuState, after: GpuState) -> tuple[str, ...]:
    """Return notes on a changed clock between two states, and on reasons for a lower clock in either."""
    notes = [f"GPU held down by {reason}" for reason in dict.fromkeys((*before.throttled_by, *after.throttled_by))]
    if before.sm_mhz != after.sm_mhz and None not in (before.sm_mhz, after.sm_mhz):
        notes.append(f"GPU clock moved from {before.sm_mhz} to {after.sm_mhz} MHz")
    return tuple(notes)


def _state(nvml: Any, own: Any, card: Any) -> GpuState:
    """Read a device; `own` is the handle of what CUDA has, which may be an instance of `card`."""
    mask = field(nvml, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, card) or 0
    memory = field(nvml, nvml.nvmlDeviceGetMemoryInfo, own)
    energy_mj = field(nvml, nvml.nvmlDeviceGetTotalEnergyConsumption, card)
    return GpuState(
        sm_mhz=field(nvml, nvml.nvmlDeviceGetClockInfo, card, nvml.NVML_CLOCK_SM),
        memory_mhz=field(nvml, nvml.nvmlDeviceGetClockInfo, card, nvml.NVML_CLOCK_MEM),
        throttled_by=tuple(
            word for name, word in _THROTTLES.items() if mask & getattr(nvml, f"nvmlClocksThrottleReason{name}", 0)
        ),
        used_mb=None if memory is None else memory.used / 1e6,
        energy_mj=None if energy_mj is None else float(energy_mj),
    )
