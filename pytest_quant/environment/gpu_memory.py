"""Device memory that this process holds on a GPU."""

from __future__ import annotations

import os

from pytest_quant.environment.gpu import cuda_gpu
from pytest_quant.environment.nvml import field, opened_nvml


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
    if device.partition(":")[0] != "cuda":
        return None
    with opened_nvml() as nvml:
        gpu = None if nvml is None else cuda_gpu(device)
        if nvml is None or gpu is None:
            return None
        own = field(nvml, nvml.nvmlDeviceGetHandleByUUID, gpu.uuid)
        processes = field(nvml, nvml.nvmlDeviceGetComputeRunningProcesses_v3, own) or ()
        held = [process.usedGpuMemory for process in processes if process.pid == os.getpid()]
    return None if not held or None in held else sum(held) / 1e6
