"""The NVIDIA GPUs of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pytest_quant.environment.nvml import opened_nvml, text_of


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device; `sm` is its compute capability as ``SM90``, `driver` the version of the NVIDIA driver."""

    index: int
    name: str
    sm: str
    memory_mb: float
    driver: str


def find_gpus() -> tuple[Gpu, ...]:
    """Return the NVIDIA devices of this machine; none without the driver or the package nvidia-ml-py."""
    with opened_nvml() as nvml:
        if nvml is None:
            return ()
        driver = text_of(nvml.nvmlSystemGetDriverVersion())
        return tuple(_gpu(nvml, index, driver) for index in range(nvml.nvmlDeviceGetCount()))


def _gpu(nvml: Any, index: int, driver: str) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    memory_mb = nvml.nvmlDeviceGetMemoryInfo(handle).total / 1e6
    return Gpu(index, text_of(nvml.nvmlDeviceGetName(handle)), f"SM{major}{minor}", memory_mb, driver)
