"""Processes of others that have the GPU open which is timed: they keep no lock of ours, and take its time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

import psutil

from pytest_quant.environment.gpu_memory import COMPUTING, gpu_processes


def gpu_neighbours(device: str) -> dict[int, str]:
    """Return the names of other processes with a context on `device` by their numbers, those of this run left out.

    Nothing where this process is not listed itself: in a container NVML lists the numbers of the host, or none.

    Parameters
    ----------
    device : ``cuda:0``, where this process has a context. Other devices are no GPUs.
    """
    # Clients of MPS are in a list of their own.
    pids = {process.pid for process in gpu_processes(device, COMPUTING, "nvmlDeviceGetMPSComputeRunningProcesses_v3")}
    if os.getpid() not in pids:
        return {}
    others = pids - _of_this_run()
    return {one.pid: one.info["name"] or "?" for one in psutil.process_iter(["name"]) if one.pid in others}


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
