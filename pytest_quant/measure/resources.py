"""What a block of code, or a run of an engine, takes: memory of the process and its device, and energy."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from pytest_quant.environment.energy_counter import Counter
from pytest_quant.environment.gpu_state import process_memory_mb
from pytest_quant.result import Interval
from pytest_quant.stats.ratio import student_quantile

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""Written to ``clear_refs``, sets the kernel's peak (VmHWM) to the present size; see proc(5)."""
BYTES_PER_MB = 1e6
_INEXACT_BYTES = 8_000_000
"""Tolerance between size and peak: the kernel counts pages per thread and adds them up late."""


class PeakMemory:
    """``with PeakMemory() as memory: ...`` then ``memory.peak_mb``: megabytes (10^6 bytes) added at the peak.

    Memory that Python already held and reuses does not count as added, so the figure is a lower bound. It is the
    kernel's own peak; ``None`` where that cannot be reset, as in some sandboxes.
    Blocks must not be nested: an inner block resets the peak of the outer one.
    """

    def __init__(self) -> None:
        self.peak_mb: float | None = None
        self._start_bytes: int | None = None

    def __enter__(self) -> Self:
        """Start from the present size."""
        self._start_bytes = _reset_peak()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Read the peak."""
        if self._start_bytes is not None:
            self.peak_mb = max(0, _status_bytes("VmHWM:") - self._start_bytes) / BYTES_PER_MB


def _reset_peak() -> int | None:
    """Set the kernel's peak to the present size, and return it in bytes; ``None`` where the kernel does not."""
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK)
        size, peak = _status_bytes("VmRSS:"), _status_bytes("VmHWM:")
    except OSError:
        return None
    # Some sandboxes accept the write and keep the old peak.
    return size if peak <= size + _INEXACT_BYTES else None


def _status_bytes(field: str) -> int:
    for line in _STATUS.read_text("ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f"{_STATUS} has no {field}")


class AddedMemory:
    """``with AddedMemory("cuda:0") as memory: ...`` then megabytes of 10^6 bytes, ``None`` where it is not measured.

    Memory of the device is what this process holds after the block less what it held before, so that neighbours on a
    card do not count. It is not known where the driver does not tell it for each process.

    Attributes
    ----------
    process_mb, device_mb : what the block added to the process, and on its device.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._peak = PeakMemory()
        self.process_mb: float | None = None
        self.device_mb: float | None = None

    def __enter__(self) -> Self:
        """Start from what is used now."""
        self._before_mb = process_memory_mb(self._device)
        self._peak.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Read the added memory."""
        self._peak.__exit__(kind, error, traceback)
        after_mb = process_memory_mb(self._device)
        # A process that is listed afterwards and was not before held nothing then.
        self.device_mb = None if after_mb is None else max(0.0, after_mb - (self._before_mb or 0.0))
        self.process_mb = self._peak.peak_mb


_BATCH_S = 0.01
"""Time of the runs between two readings: reading NVML takes a part of a millisecond, in which the device idles."""

_SLOWEST_STEP_S = 0.1
"""After a longer run an edge is waited for without runs, which leaves it less uncertain than one more run would."""

_STANDS_STILL_S = 0.5
_MOST_UNSURE = 0.9
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class EnergyPlan:
    """How long to measure.

    Attributes
    ----------
    repeat_s : shortest time of one repeat in seconds, from an edge of the counter to another one.
    repeats : enough where they tell the figure within `precision`, and on which side of the limit it is.
    max_repeats : made where fewer do not tell.
    max_s : seconds, after which no further repeat is begun.
    precision : half-width of the interval as a share of the figure.
    limit_mj : millijoules to decide; ``None`` without a limit.
    """

    repeat_s: float = 5.0
    repeats: int = 3
    max_repeats: int = 6
    max_s: float = 60.0
    precision: float = 0.05
    limit_mj: float | None = None

    @property
    def shown_s(self) -> str:
        """How long it takes, as text that follows what is measured; empty for less than a few seconds."""
        least_s, most_s = self.repeats * self.repeat_s, self.max_repeats * self.repeat_s
        return f" for {least_s:g} to {most_s:g} s" if self.repeats < self.max_repeats else ""


ROUGH = EnergyPlan(repeat_s=0.5, repeats=1, max_repeats=1)
"""For a check without a limit on energy: a figure in half a second, without an interval."""


@dataclass(frozen=True, slots=True)
class Energy:
    """Millijoules of one run and their 95 % interval, which is ``None`` where they were measured only once."""

    mj: float
    ci: Interval | None


def measure_energy(
    call: Callable[[], object],
    counter: Counter,
    plan: EnergyPlan,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Energy | None:
    """Return the millijoules of one run: those of the whole device while runs follow each other, by their number.

    The power of the idle device and of other processes is part of the figure.

    A repeat begins and ends when the counter steps, since its value is exact only then. When it stepped is known up to
    the time between two readings, and the interval holds what the device may have spent in that time, beside Student's
    interval of the repeats. It is looked at twice at most, after `plan.repeats` and after the last repeat.

    Parameters
    ----------
    call : one run.
    counter : of the device that runs it.
    plan : times and numbers of repeats.
    clock : seconds.

    Returns
    -------
    ``None`` where the counter cannot be read, or stands still.
    """
    started = clock()
    runs = _Runs(call, counter, clock)
    edge = runs.to_next_edge()
    repeats: list[_Repeat] = []
    while edge is not None:
        end = runs.to_next_edge(edge.at_s + plan.repeat_s)
        if end is None:
            return None
        repeats.append(_Repeat.between(edge, end))
        energy = _figure(repeats)
        one_more_s = end.at_s - started + (end.at_s - edge.at_s)
        if len(repeats) == plan.max_repeats or one_more_s > plan.max_s:
            return energy
        if len(repeats) == plan.repeats and _told(energy, plan):
            return energy
        edge = end
    return None


def _told(energy: Energy, plan: EnergyPlan) -> bool:
    """Whether the figure is precise enough, and its interval beside the limit."""
    if energy.ci is None:
        return plan.limit_mj is None
    precise = energy.ci.high - energy.ci.low <= 2 * plan.precision * energy.mj
    return precise and not (plan.limit_mj is not None and energy.ci.low <= plan.limit_mj < energy.ci.high)


@dataclass(frozen=True, slots=True)
class _Edge:
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


class _Runs:
    """Runs one after the other, with readings of the counter in between; small ones are run in batches."""

    def __init__(self, call: Callable[[], object], counter: Counter, clock: Callable[[], float]) -> None:
        self._call, self._counter, self._clock = call, counter, clock
        # The first run may load or compile, and says nothing about the next ones.
        call()
        began, runs = clock(), 0
        while runs == 0 or clock() - began < _BATCH_S:
            call()
            runs += 1
        self._batch = runs
        self._waits = clock() - began > _SLOWEST_STEP_S

    def to_next_edge(self, not_before_s: float = -math.inf) -> _Edge | None:
        """Make runs until that time and on until the counter steps; ``None`` if it is not readable or stands still."""
        runs = 0
        while self._clock() < not_before_s:
            runs += self._run()
        ran_until_s = seen_s = self._clock()
        before_mj = self._counter()
        while before_mj is not None and seen_s - ran_until_s < _STANDS_STILL_S:
            # Taken before the reading, so that the gap is never too short.
            last_s = seen_s
            if not self._waits:
                runs += self._run()
            now_mj, seen_s = self._counter(), self._clock()
            if now_mj is None:
                return None
            if now_mj != before_mj:
                idle_s = seen_s - ran_until_s if self._waits else 0.0
                return _Edge(now_mj, seen_s, seen_s - last_s, runs, idle_s)
        return None

    def _run(self) -> int:
        for _ in range(self._batch):
            self._call()
        return self._batch


@dataclass(frozen=True, slots=True)
class _Repeat:
    """Millijoules of one run, and by how many the edges leave them uncertain."""

    mj: float
    slack_mj: float

    @classmethod
    def between(cls, start: _Edge, end: _Edge) -> _Repeat:
        """Take the edges for where they were seen; the power is that of the whole repeat."""
        mj = (end.mj - start.mj) / end.runs
        unsure = min((start.gap_s + end.gap_s + end.idle_s) / (end.at_s - start.at_s), _MOST_UNSURE)
        # The true energy may lie below or above by `unsure` of itself, not of the figure.
        return cls(mj, mj * unsure / (1.0 - unsure))


def _figure(repeats: list[_Repeat]) -> Energy:
    each = [repeat.mj for repeat in repeats]
    mean = statistics.fmean(each)
    if len(each) == 1:
        return Energy(mean, None)
    error = statistics.stdev(each) / math.sqrt(len(each))
    reach = student_quantile(_CONFIDENCE, len(each) - 1) * error + statistics.fmean(one.slack_mj for one in repeats)
    return Energy(mean, Interval(mean - reach, mean + reach))
