"""Processes of others that have the GPU open which is timed: they keep no lock of ours, and take its time."""

from __future__ import annotations

import os
from collections.abc import Mapping

import psutil

from pytest_quant.environment.gpu import cuda_gpu
from pytest_quant.environment.nvml import field, opened_nvml

_MPS = "nvidia-cuda-mps"


def gpu_neighbours(device: str) -> dict[int, str]:
    """Return the names of other processes with a context on `device` by their numbers, those of this run left out.

    Nothing where this process is not listed itself: in a container NVML lists the numbers of the host, or none.

    Parameters
    ----------
    device : ``cuda:0``, where this process has a context. Other devices are no GPUs.
    """
    if device.partition(":")[0] != "cuda":
        return {}
    with opened_nvml() as nvml:
        gpu = None if nvml is None else cuda_gpu(device)
        if nvml is None or gpu is None:
            return {}
        own = field(nvml, nvml.nvmlDeviceGetHandleByUUID, gpu.uuid)
        # Clients of MPS are in a list of their own.
        lists = (nvml.nvmlDeviceGetComputeRunningProcesses_v3, nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3)
        pids = {process.pid for read in lists for process in field(nvml, read, own) or ()}
    if os.getpid() not in pids:
        return {}
    names = {pid: _name(pid) for pid in pids - _of_this_run()}
    return {pid: name for pid, name in names.items() if name}


def neighbour_notes(before: Mapping[int, str], after: Mapping[int, str]) -> tuple[str, ...]:
    """Return a note on the neighbours before and after timing, nothing where there are none."""
    both = {**before, **after}
    if not both:
        return ()
    when = {pid: "" if pid in before and pid in after else "before" if pid in before else "after" for pid in both}
    named = [f"{pid} ({both[pid]}{when[pid] and f', only {when[pid]} timing'})" for pid in sorted(both)]
    mps = "; MPS runs work of several of them at once" if any(name.startswith(_MPS) for name in both.values()) else ""
    return (f"shared GPU: other processes have it open: {', '.join(named)}{mps}",)


def _of_this_run() -> set[int]:
    """Return this process, those above it that run the same Python, as a controller of workers does, and all below."""
    top = psutil.Process()
    try:
        while (parent := top.parent()) is not None and parent.exe() == top.exe():
            top = parent
    except psutil.Error:  # it is another user's, or has ended
        pass
    return {top.pid, *(process.pid for process in top.children(recursive=True))}


def _name(pid: int) -> str:
    """Return the name of a process; empty where there is none of that number here."""
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return ""
