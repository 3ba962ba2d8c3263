"""Energy of one run, from the counters of the device that does it."""

from __future__ import annotations

import time
from collections.abc import Callable

from pytest_quant.environment.gpu import gpu_state
from pytest_quant.environment.rapl import read_rapl, spent_mj

MIN_S = 0.5
"""RAPL counts every millisecond and NVML every 20 to 100 of them; half a second makes either step small."""

Counter = Callable[[], float | None]
"""Millijoules spent since it was made, ``None`` where they are not counted."""


def device_counter(device: str) -> Counter | None:
    """Return a counter that starts now for ``cpu`` or ``cuda:0``; ``None`` where nothing counts."""
    if device == "cpu":
        start = read_rapl()
        if start is None:
            return None

        def cpu_mj() -> float | None:
            now = read_rapl()
            return None if now is None else spent_mj(start, now)

        return cpu_mj
    before = gpu_state(device)
    if before is None or before.energy_mj is None:
        return None
    first_mj = before.energy_mj

    def gpu_mj() -> float | None:
        now = gpu_state(device)
        return None if now is None or now.energy_mj is None else now.energy_mj - first_mj

    return gpu_mj


def measure_energy(
    call: Callable[[], object],
    device: str,
    *,
    counter: Callable[[str], Counter | None] = device_counter,
    clock: Callable[[], float] = time.perf_counter,
    min_s: float = MIN_S,
) -> float | None:
    """Return the millijoules of one run: those of the whole device over at least `min_s` seconds of runs, divided.

    What the idle device and other processes draw is in it. ``None`` where nothing counts.
    """
    spent = counter(device)
    if spent is None:
        return None
    started, runs = clock(), 0
    while runs == 0 or clock() - started < min_s:
        call()
        runs += 1
    total_mj = spent()
    return None if total_mj is None else total_mj / runs
