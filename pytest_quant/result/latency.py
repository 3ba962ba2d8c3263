"""Times of one check, as measured and in figures."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pytest_quant.result.kinds import Interval
from pytest_quant.spec import UNKNOWN, Spread

WhichClock: TypeAlias = Literal["host", "device"]
"""What runs are timed by."""

NULL_OFF = "the null is off"
"""How a reason begins that says by how much the figures may be wrong; others make them worthless."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The timed runs of one engine: one tuple of nanoseconds per round, cold first runs kept apart."""

    runs_ns: tuple[tuple[int, ...], ...]
    cold_ns: tuple[int, ...] = ()

    @property
    def medians_ns(self) -> tuple[float, ...]:
        """The median run of each round, all that a history keeps."""
        return tuple(statistics.median(runs) for runs in self.runs_ns)


@dataclass(frozen=True, slots=True)
class LaunchFigures:
    """What one launch, one fresh process, says of a check's latency: one number of each kind.

    Attributes
    ----------
    started_at : ISO 8601 in UTC; launches of one day are one cluster, see `pytest_quant.stats.launches.days_of`.
    speedup : reference / candidate; ``None`` where no reference was timed.
    candidate_p50_ms : median of the candidate, milliseconds per run of one batch.
    reference_p50_ms : median of the reference, milliseconds per run of one batch.
    error : standard error of log(speedup) within the launch; ``None`` where it is not known.
    """

    started_at: str
    speedup: float | None = None
    candidate_p50_ms: float | None = None
    reference_p50_ms: float | None = None
    error: float | None = None


@dataclass(frozen=True, slots=True)
class LaunchNoise:
    """How launches of one unchanged check differ.

    Attributes
    ----------
    within : between launches of one day.
    between : between the means of days, `per_day` launches each: its variance is that of the day itself and a
        `per_day`-th of that `within` a day.
    """

    within: Spread = UNKNOWN
    between: Spread = UNKNOWN
    per_day: float = 1.0


NOTHING_KNOWN = LaunchNoise()
"""Of launches whose noise nobody has seen."""


@dataclass(frozen=True, slots=True)
class OverLaunches:
    """What several launches of one check say together, see `pytest_quant.stats.draws`.

    Attributes
    ----------
    launches : how many, that of this process included.
    speedup, candidate_p50_ms : means of their logarithms, as a ratio and as milliseconds.
    speedup_ci, candidate_p50_ci_ms : intervals of what further launches would have as their mean.
    """

    launches: int
    speedup: float
    speedup_ci: Interval
    candidate_p50_ms: float
    candidate_p50_ci_ms: Interval


@dataclass(frozen=True, slots=True)
class LatencyResult:
    """Reference, null and candidate timed interleaved, round by round.

    Attributes
    ----------
    batch_size : samples in one run.
    reference, null, candidate : the raw runs.
    reference_p50_ms, candidate_p50_ms, candidate_p90_ms, candidate_p99_ms : milliseconds per run; a
        percentile is ``None`` when there were too few runs to state it.
    percentile_bounds_ms : ``(percentile, low, high)`` order-statistic intervals of the candidate;
        ``low`` or ``high`` is ``None`` when there were too few runs for that side.
    speedup, speedup_ci : reference / candidate; > 1 is faster. The interval holds over all looks at the rounds, and
        allows for `session_sd` and for rounds that resemble each other.
    null_ratio_ci : null / reference, of these two sessions; must enclose nearly 1.
    half_width_pct : half-width of the speedup's interval in percent, the detectable effect.
    reasons : named reasons why the numbers cannot be trusted; empty when they can.
    notes : named signs of noise that do not void the numbers.
    spent_s : seconds that warming up and all rounds took.
    reference_precision : of the engine that latency is compared with: ``fp32``, ``tf32``, ``fp16`` or ``bf16``.
    clock : what the runs were timed by: ``host``, or ``device`` where each engine has a clock of its own. Times by
        different clocks are never compared.
    tf32 : whether that engine's FP32 products may be rounded to TF32; ``None`` where its device has no TF32, or its
        products are not FP32.
    repeat : the second measurement, when the first one broke a limit.
    confidence : of the intervals, 0..1.
    looks : at the rounds, the last one included.
    session_sd : standard deviation between sessions that the interval of the speedup allows for, as a natural
        logarithm: what was known of the runner, moderated by this launch's null.
    effective_rounds : how many independent rounds tell as much as these, see `pytest_quant.stats.rounds`.
    widened : what makes the interval of the speedup wider than its rounds alone would, one sentence.
    launches : further launches of the same check in this run, each a fresh process; this one is not among them.
    over : what all of them say together, with this one; ``None`` without further ones.
    sets : rounds of each set of sessions, in order; several where sessions differ by more than rounds do.
    small_pages : engines on the processor were timed on the pages of 4 KB that the system gives.
    """

    batch_size: int
    rounds: int
    reference: Blocks = field(repr=False)
    null: Blocks = field(repr=False)
    candidate: Blocks = field(repr=False)
    reference_p50_ms: float
    candidate_p50_ms: float
    candidate_p90_ms: float | None
    candidate_p99_ms: float | None
    percentile_bounds_ms: tuple[tuple[float, float | None, float | None], ...]
    speedup: float
    speedup_ci: Interval
    null_ratio_ci: Interval
    half_width_pct: float
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    spent_s: float = 0.0
    reference_precision: str = "fp32"
    tf32: bool | None = None
    clock: WhichClock = "host"
    repeat: LatencyResult | None = field(default=None, repr=False)
    launches: tuple[LaunchFigures, ...] = ()
    confidence: float = 0.95
    looks: int = 1
    session_sd: float = 0.0
    effective_rounds: float | None = None
    widened: str = ""
    over: OverLaunches | None = None
    sets: tuple[int, ...] = ()
    small_pages: bool = False


@dataclass(frozen=True, slots=True)
class DeviceTimes:
    """One run taken apart, milliseconds: medians over `runs` runs.

    Attributes
    ----------
    gpu_ms : compute, between two events on the engine's stream, queued behind another run; ``None`` where no clock of
        the device can be read.
    h2d_ms, d2h_ms : copies of all inputs to the device, and of all outputs back, by the clock of `gpu_ms`, else by the
        host's.
    host_ms : from the call to the synchronized return, copies excluded.
    pinned : the copies are from and to page-locked memory of the host, at the bus's speed; else through a buffer.
    enqueue_ms : the host's time to start a run; ``None`` where that waits for the device.
    """

    runs: int
    gpu_ms: float | None
    h2d_ms: float
    d2h_ms: float
    host_ms: float
    pinned: bool = False
    enqueue_ms: float | None = None
