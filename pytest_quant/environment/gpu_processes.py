"""Processes that have a GPU open: the device memory of this one, and those of others.

Others keep no lock of ours, and take time of the GPU that is timed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import psutil

from pytest_quant.environment.gpu import cuda_gpu
from pytest_quant.environment.nvml import field, opened_nvml

_COMPUTING = "nvmlDeviceGetComputeRunningProcesses_v3"


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
    held = [process.usedGpuMemory for process in _processes(device, _COMPUTING) if process.pid == os.getpid()]
    return None if not held or None in held else sum(held) / 1e6


def gpu_neighbours(device: str) -> dict[int, str]:
    """Return the names of other processes with a context on `device` by their numbers, those of this run left out.

    Nothing where this process is not listed itself: in a container NVML lists the numbers of the host, or none.

    Parameters
    ----------
    device : ``cuda:0``, where this process has a context. Other devices are no GPUs.
    """
    # Clients of MPS are in a list of their own.
    pids = {process.pid for process in _processes(device, _COMPUTING, "nvmlDeviceGetMPSComputeRunningProcesses_v3")}
    if os.getpid() not in pids:
        return {}
    others = pids - _of_this_run()
    return {
        process.pid: process.info["name"] or "?" for process in psutil.process_iter(["name"]) if process.pid in others
    }


def neighbour_notes(before: Mapping[int, str], after: Mapping[int, str]) -> tuple[str, ...]:
    """Return a note on the neighbours before and after timing, nothing where there are none."""
    both = {**before, **after}
    if not both:
        return ()
    when = {pid: "" if pid in before and pid in after else "before" if pid in before else "after" for pid in both}
    named = [f"{pid} ({both[pid]}{when[pid] and f', only {when[pid]} timing'})" for pid in sorted(both)]
    mps = "; MPS runs their work at the same time" if any("cuda-mps" in name for name in both.values()) else ""
    return (f"shared GPU: other processes have it open: {', '.join(named)}{mps}",)


def _of_this_run() -> set[int]:
    """Return this process, those above it that run the same Python, as a controller of workers does, and all below."""
    top = psutil.Process()
    with suppress(psutil.Error):  # it is another user's, or has ended
        while (parent := top.parent()) is not None and parent.exe() == top.exe():
            top = parent
    return {top.pid, *(process.pid for process in top.children(recursive=True))}


def _processes(device: str, *lists: str) -> list[Any]:
    """Return the processes in these `lists` of NVML, such as `_COMPUTING`, for a device such as ``cuda:0``.

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
