"""NVIDIA GPUs through NVML: names, memory, clocks and energy, without a CUDA context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

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
class Gpu:
    """One device; `sm` is its compute capability as ``SM90``, `driver` the version of the NVIDIA driver."""

    index: int
    name: str
    sm: str
    memory_mb: float
    driver: str


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


def has_nvml() -> bool:
    """Whether the package nvidia-ml-py is installed, without which GPUs cannot be listed."""
    return find_spec("pynvml") is not None


def find_gpus() -> tuple[Gpu, ...]:
    """Return the NVIDIA devices of this machine; none without the driver or the package nvidia-ml-py."""
    with _nvml() as nvml:
        if nvml is None:
            return ()
        driver = _text(nvml.nvmlSystemGetDriverVersion())
        return tuple(_gpu(nvml, index, driver) for index in range(nvml.nvmlDeviceGetCount()))


def gpu_state(device: str) -> GpuState | None:
    """Return the state of a device such as ``cuda:0``; ``None`` for other devices, or when NVML cannot read it."""
    kind, _, index = device.partition(":")
    if kind != "cuda":
        return None
    with _nvml() as nvml:
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


@contextmanager
def _nvml() -> Iterator[Any | None]:
    """Give the initialized NVML module, ``None`` without the package or the driver."""
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: Any, index: int, driver: str) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    memory_mb = nvml.nvmlDeviceGetMemoryInfo(handle).total / 1e6
    return Gpu(index, _text(nvml.nvmlDeviceGetName(handle)), f"SM{major}{minor}", memory_mb, driver)


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


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
