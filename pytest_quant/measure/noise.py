"""Signs of noise, in the times and in the counters of the machine.

A reason speaks against the figures: the null is off, and they may be as far off, or there are too few rounds for any
interval. A note goes with figures that hold, because interleaving cancels what affects all engines alike.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from pytest_quant.result import NULL_OFF, Interval
from pytest_quant.spec import LatencyPlan
from pytest_quant.stats.ratio import fewest_rounds
from pytest_quant.stats.rounds import JudgedRounds

NULL_TOLERANCE = 1.02
"""Interleaved in one process, two sessions of one model differ by 0.4 to 0.6 % (standard deviation) between
launches; beyond 2 % something other than the model is measured, unless the runner is known for more."""

_FAR = 4.0
"""Standard deviations between sessions; what a null shows up to there widens the interval, see `moderated_sd`."""

_FEWEST_NOTED = 2
_WIDE_IQR = 0.10
_TREND = 1.03
_CORRELATED = 0.5


def null_reasons(null_ratio: Interval, session_sd: float = 0.0) -> tuple[str, ...]:
    """Return a reason if the interval of the null's ratio is beyond the tolerance, else nothing.

    Parameters
    ----------
    null_ratio : null / reference.
    session_sd : known standard deviation of its logarithm between sessions, or of its mean over sets of them; four of
        them are tolerated.
    """
    tolerance = max(NULL_TOLERANCE, math.exp(_FAR * session_sd))
    if null_ratio.low > tolerance or null_ratio.high < 1.0 / tolerance:
        span = f"[{null_ratio.low:.3f}, {null_ratio.high:.3f}]"
        return (f"{NULL_OFF}: a second session of the reference took {span} times as long as the first",)
    return ()


def budget_reasons(rounds: int, plan: LatencyPlan) -> tuple[str, ...]:
    """Return a reason if the time was over before there were enough rounds for an interval, else nothing."""
    fewest = fewest_rounds(plan.confidence)
    if rounds < fewest:
        needed = f"{100 * plan.confidence:g} % confidence needs {fewest}"
        return (f"too few rounds within {plan.max_s:.3g} s: {rounds}, and {needed}",)
    return ()


def noise_notes(candidate_ns: Sequence[float], reference_ns: Sequence[float], ratio: JudgedRounds) -> tuple[str, ...]:
    """Return notes on the rounds: a wide spread or a trend of one engine, and ratios that resemble their neighbours.

    Parameters
    ----------
    candidate_ns, reference_ns : block medians, one per round.
    ratio : of the two, as judged: waves that both engines share cancel in it.
    """
    notes: list[str] = []
    rounds = len(candidate_ns)
    if rounds < _FEWEST_NOTED:
        return ()
    for name, medians in (("candidate", candidate_ns), ("reference", reference_ns)):
        first, _, third = statistics.quantiles(medians, n=4)
        spread = (third - first) / statistics.median(medians)
        if spread > _WIDE_IQR:
            notes.append(f"wide spread: half of the {name}'s rounds lie {100 * spread:.0f} % apart")
        part = max(1, rounds // 3)
        trend = statistics.median(medians[-part:]) / statistics.median(medians[:part])
        if not 1.0 / _TREND < trend < _TREND:
            notes.append(f"trend: the {name} took {trend:.2f} times as long at the end as at the start")
    if note := _alike(ratio, rounds):
        notes.append(f"slow waves: {note}")
    return tuple(notes)


def _alike(ratio: JudgedRounds, rounds: int) -> str:
    """Say how few independent rounds tell as much; empty where the resemblance may be chance."""
    r = float(ratio.alike.item())
    # Of independent rounds 95 % stay within 2 / sqrt(n), whatever n (Box and Jenkins 1976, section 2.1.6).
    if r <= max(_CORRELATED, 2.0 / math.sqrt(rounds)):
        return ""
    return f"a round's ratio resembles the one before it (r = {r:.2f}): {rounds} rounds tell as much as " + (
        f"{float(ratio.effective_rounds.item()):.1f} independent ones"
    )


_CLEARLY_MORE = 1.25
"""Times what was known: beyond it the null is named as the cause."""


def widening(ratio: JudgedRounds, rounds: int, plan: LatencyPlan) -> str:
    """Say what makes the interval of the speedup wider than its rounds alone would.

    Parameters
    ----------
    ratio : log(reference / candidate), as judged.
    rounds : that were judged.
    plan : what was known of the noise between sessions, and the confidence.
    """
    sd = float(ratio.session_sd.item())
    causes = []
    if sd > 0.0:
        shown = " that this launch's null shows" if sd > plan.sessions.sd * _CLEARLY_MORE else ""
        causes.append(f"for sessions that differ by {100 * sd:.2g} % (standard deviation){shown}")
    if note := _alike(ratio, rounds):
        causes.append(f"for rounds that are not independent: {note}")
    return f"the {100 * plan.confidence:g} % interval allows {' and '.join(causes)}" if causes else ""


_BUSY_FIELDS = ("user", "nice", "system", "irq", "softirq")
_OTHERS = 0.25
"""Load of other processes, in processors, above which a note names it."""

_STOLEN = 0.01
"""Share of the processors' time taken by the hypervisor, above which a note names it."""


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
    """Read every counter now; counters that the system does not have are 0."""
    times = psutil.cpu_times(percpu=True)
    processors = [times[index] for index in os.sched_getaffinity(0) if index < len(times)]
    return MachineState(
        at_s=time.monotonic(),
        own_s=time.process_time(),
        busy_s=sum(getattr(processor, name, 0.0) for processor in processors for name in _BUSY_FIELDS),
        stolen_s=sum(getattr(processor, "steal", 0.0) for processor in processors),
        throttled=sum(_throttled(file) for file in _control_group_files()),
        processors=len(processors),
    )


def machine_notes(before: MachineState, after: MachineState) -> tuple[str, ...]:
    """Return notes on what took processor time away between two readings."""
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
    """Yield ``cpu.stat`` of this process's control group and of its parents, versions 1 and 2."""
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
    """Return how often the group of `file` was throttled, 0 where it has no limit or no such file."""
    try:
        fields = dict(line.split(maxsplit=1) for line in file.read_text("ascii").splitlines())
    except OSError:
        return 0
    return int(fields.get("nr_throttled", 0))
