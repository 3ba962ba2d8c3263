"""What else the machine did while engines were timed, from counters read before and after."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

_BUSY_FIELDS = ("user", "nice", "system", "irq", "softirq")
_OTHERS = 0.25
"""Processors' worth of other work from which it is told."""

_STOLEN = 0.01
"""Share of the processors' time taken by the hypervisor from which it is told."""


@dataclass(frozen=True, slots=True)
class MachineState:
    """Counters at one moment; only differences between two of them mean anything.

    Attributes
    ----------
    at_s : a monotonic clock.
    own_s : processor seconds of this process, all threads together.
    busy_s, stolen_s : of the `processors` that this process may use: seconds spent on any process, and seconds
        that the hypervisor gave to somebody else.
    throttled : times that a CPU limit stopped this process's control group.
    """

    at_s: float
    own_s: float
    busy_s: float
    stolen_s: float
    throttled: int
    processors: int


def read_machine() -> MachineState:
    """Read every counter now; what the system does not tell is 0 and never noted."""
    times = psutil.cpu_times(percpu=True)
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(times))
    ours = [times[index] for index in allowed if index < len(times)]
    return MachineState(
        at_s=time.monotonic(),
        own_s=time.process_time(),
        busy_s=sum(getattr(one, name, 0.0) for one in ours for name in _BUSY_FIELDS),
        stolen_s=sum(getattr(one, "steal", 0.0) for one in ours),
        throttled=sum(_throttled(file) for file in _control_group_files()),
        processors=len(ours),
    )


def machine_notes(before: MachineState, after: MachineState) -> tuple[str, ...]:
    """Name what took processors away between two readings."""
    elapsed_s = after.at_s - before.at_s
    if elapsed_s <= 0.0 or after.processors == 0:
        return ()
    notes = []
    others = ((after.busy_s - before.busy_s) - (after.own_s - before.own_s)) / elapsed_s
    if others > _OTHERS:
        notes.append(f"busy machine: other processes used {others:.1f} of {after.processors} processors")
    stolen = (after.stolen_s - before.stolen_s) / (elapsed_s * after.processors)
    if stolen > _STOLEN:
        notes.append(f"stolen time: the hypervisor took {100 * stolen:.0f} % of the processors' time")
    throttled = after.throttled - before.throttled
    if throttled > 0:
        notes.append(f"throttled: a CPU limit of the control group stopped this process {throttled} times")
    return tuple(notes)


def _control_group_files() -> Iterator[Path]:
    """Yield ``cpu.stat`` of this process's control group and of the ones above it, versions 1 and 2."""
    try:
        lines = Path("/proc/self/cgroup").read_text("ascii").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = Path("/sys/fs/cgroup", *(["cpu"] if controllers else []))
        group = root / path.lstrip("/")
        yield from (folder / "cpu.stat" for folder in (group, *group.parents) if folder.is_relative_to(root))


def _throttled(file: Path) -> int:
    """Return the times that the group of `file` was stopped, 0 where it has no limit or no such file."""
    try:
        fields = dict(line.split(maxsplit=1) for line in file.read_text("ascii").splitlines())
    except OSError:
        return 0
    return int(fields.get("nr_throttled", 0))
