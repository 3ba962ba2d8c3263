"""Processes that have a GPU open, and the device memory of this one."""

from __future__ import annotations

import os
from typing import Any

from pytest_quant.environment.gpu import cuda_gpu
from pytest_quant.environment.nvml import field, opened_nvml

COMPUTING = "nvmlDeviceGetComputeRunningProcesses_v3"


def gpu_processes(device: str, *lists: str) -> list[Any]:
    """Return the processes in these `lists` of NVML, such as `COMPUTING`, for a device such as ``cuda:0``.

    None for devices that are no GPUs, and where the driver does not tell.
    """
    if device.partition(":")[0] != "cuda":
        return []
    with opened_nvml() as nvml:
        gpu = None if nvml is None else cuda_gpu(device)
        if nvml is None or gpu is None:
            return []
        own = field(nvml, nvml.nvmlDeviceGetHandleByUUID, gpu.uuid)
        return [process for name in lists for process in field(nvml, getattr(nvml, name), own) or ()]


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
    held = [process.usedGpuMemory for process in gpu_processes(device, COMPUTING) if process.pid == os.getpid()]
    return None if not held or None in held else sum(held) / 1e6
