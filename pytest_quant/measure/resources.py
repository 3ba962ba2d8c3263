"""What a block of code, or a run of an engine, takes: memory of the process and its device, and energy."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

from pytest_quant.clocks import REAL
from pytest_quant.host import give_back_freed_memory, watch_peak
from pytest_quant.result import Interval, Resources
from pytest_quant.stats.ratio import student_quantile

if TYPE_CHECKING:
    from pytest_quant.environment.device_state import Counter
    from pytest_quant.measure.batching import OpenEngine

BYTES_PER_MB = 1e6


class AddedMemory:
    """``with AddedMemory("cuda:0") as memory: ...`` then megabytes of 10^6 bytes, ``None`` if not measured.

    That of the process is the kernel's own peak, which not every system resets, see `watch_peak`. Memory that Python
    already held and reuses does not count, so the figure is a lower bound. Blocks must not be nested: an inner block
    resets the peak of the outer one.

    Memory of the device is what this process holds after the block less what it held before, so that neighbours on a
    card do not count. It is not known where the driver does not tell it for each process.

    Parameters
    ----------
    device : whose memory is looked at beside that of the process.

    Attributes
    ----------
    process_mb, device_mb : what the block added to the process at its peak, and on its device.
    """

    def __init__(self, device: str = "cpu") -> None:
        self._device = device
        self.process_mb: float | None = None
        self.device_mb: float | None = None

    def __enter__(self) -> Self:
        """Start from what is used now."""
        # What is kept of freed memory would be there twice, and hide what the block adds.
        give_back_freed_memory()
        self._before_mb = _held_mb(self._device)
        self._added_bytes = watch_peak()
        return self

    def __exit__(self, *_: object) -> None:
        """Read the added memory."""
        added_bytes = self._added_bytes()
        self.process_mb = None if added_bytes is None else added_bytes / BYTES_PER_MB
        after_mb = _held_mb(self._device)
        # A process that is listed afterwards and was not before held nothing then.
        self.device_mb = None if after_mb is None else max(0.0, after_mb - (self._before_mb or 0.0))


def _held_mb(device: str) -> float | None:
    """Return what this process holds of the device's own memory; ``None`` for the CPU, or where nothing tells."""
    if device == "cpu":
        return None
    # Here, because it is for GPUs.
    from pytest_quant.environment.device_state import process_memory_mb

    return process_memory_mb(device)


Energy: TypeAlias = tuple[float, Interval | None]
"""Millijoules of one run and their 95 % interval, which is ``None`` where they were measured only once."""


class _Edge(NamedTuple):
    """A step of the counter.

    Attributes
    ----------
    mj : the counter after it.
    at_s : when it was seen.
    gap_s : the counter stepped so long before that at most.
    runs : made since the edge before.
    idle_s : spent waiting for this one, without runs.
    """

    mj: float
    at_s: float
    gap_s: float
    runs: int
    idle_s: float


def measure_energy(
    call: Callable[[], object],
    counter: Counter,
    limit_mj: float | None,
    *,
    clock: Callable[[], float] = REAL.perf_counter,
) -> Energy | None:
    """Return the millijoules of one run: the energy of the whole device during consecutive runs, by their number.

    The power of the idle device and of other processes is part of the figure.

    A repeat begins and ends when the counter steps, since its value is exact only then. When it stepped is known up to
    the time between two readings, and the interval holds what the device may have spent in that time, beside Student's
    interval of the repeats. It is looked at twice at most, after three and after six repeats of 5 s.

    Parameters
    ----------
    call : one run.
    counter : of the device that runs it.
    limit_mj : millijoules to decide; ``None`` without a limit, where half a second gives a rough figure.
    clock : seconds.

    Returns
    -------
    ``None`` where the counter cannot be read, or stands still.
    """
    # Without a limit on energy: one repeat, which has no interval.
    repeat_s, most = (0.5, 1) if limit_mj is None else (5.0, 6)
    started = clock()
    call()  # it may load or compile, and says nothing about the next ones
    began, batch = clock(), 0
    # Reading NVML takes a part of a millisecond, in which the device idles.
    while batch == 0 or clock() - began < 0.01:
        call()
        batch += 1
    # After such a run an edge is waited for without runs, which leaves it less uncertain than one more run would.
    waits = clock() - began > 0.1

    def run_batch() -> int:
        for _ in range(batch):
            call()
        return batch

    next_edge = partial(_next_edge, run_batch, counter, clock, waits)
    edge = next_edge(-math.inf)
    repeats_mj: list[float] = []
    slacks_mj: list[float] = []
    while edge is not None and (end := next_edge(edge.at_s + repeat_s)) is not None:
        took_s = end.at_s - edge.at_s
        repeats_mj.append((end.mj - edge.mj) / end.runs)
        unsure = min((edge.gap_s + end.gap_s + end.idle_s) / took_s, 0.9)
        # The true energy may lie below or above by `unsure` of itself, not of the figure.
        slacks_mj.append(repeats_mj[-1] * unsure / (1.0 - unsure))
        mj, span = _figure(repeats_mj, slacks_mj)
        enough = len(repeats_mj) == 3 and span is not None and _is_decided(mj, span, limit_mj)
        # No further repeat is begun that would end after a minute.
        if enough or len(repeats_mj) == most or end.at_s - started + took_s > 60.0:
            return mj, span
        edge = end
    return None


def _next_edge(
    run_batch: Callable[[], int], counter: Counter, clock: Callable[[], float], waits: bool, not_before_s: float
) -> _Edge | None:
    """Make runs until that time and on until the counter steps; ``None`` if it is not readable or stands still."""
    runs = 0
    while clock() < not_before_s:
        runs += run_batch()
    ran_until_s = seen_s = clock()
    before_mj = counter()
    while before_mj is not None and seen_s - ran_until_s < 0.5:
        last_s = seen_s  # taken before the reading, so that the gap is never too short
        runs += 0 if waits else run_batch()
        now_mj, seen_s = counter(), clock()
        if now_mj is None:
            return None
        if now_mj != before_mj:
            return _Edge(now_mj, seen_s, seen_s - last_s, runs, seen_s - ran_until_s if waits else 0.0)
    return None


def _is_decided(mj: float, span: Interval, limit_mj: float | None) -> bool:
    """Whether the figure is precise enough, and its interval beside the limit."""
    # A half-width of 5 % is precise enough.
    is_precise = span.high - span.low <= 0.1 * mj
    return is_precise and not (limit_mj is not None and span.low <= limit_mj < span.high)


def _figure(repeats_mj: list[float], slacks_mj: list[float]) -> Energy:
    mean, n = statistics.fmean(repeats_mj), len(repeats_mj)
    if n == 1:
        return mean, None
    error = statistics.stdev(repeats_mj) / math.sqrt(n)
    reach = student_quantile(0.95, n - 1) * error + statistics.fmean(slacks_mj)
    return mean, Interval(mean - reach, mean + reach)


def find_resources(
    candidate: OpenEngine, reference: OpenEngine, memory: AddedMemory, energy: Energy | None
) -> Resources:
    """Return size, memory, build time and energy, each ``None`` if unknown.

    The memory of a simulation is not that of the simulated engine. The size of the plan and the cost of its build are
    left out where another product than the backend's own built the plan. All are left out of what cannot be seen into.
    """
    built, engine = candidate.built, candidate.engine
    if built.backend.offer.is_opaque:
        return Resources(device=built.backend.device)
    real, other = not engine.simulated, engine.plan_of
    return Resources(
        size_mb=None if other else engine.size_bytes / BYTES_PER_MB,
        reference_size_mb=None if reference.engine.plan_of else reference.engine.size_bytes / BYTES_PER_MB,
        build_s=None if other else built.build_s,
        calibration_s=built.calibration_s,
        build_memory_mb=None if other else built.build_memory_mb,
        run_memory_mb=memory.process_mb if real else None,
        energy_mj=None if energy is None else energy[0],
        energy_mj_ci=None if energy is None else energy[1],
        device_memory_mb=engine.device_bytes / BYTES_PER_MB if real and engine.device_bytes is not None else None,
        device_memory_nvml_mb=memory.device_mb if real else None,
        plan_of=other,
        device=built.backend.device,
    )
