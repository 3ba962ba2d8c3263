"""Times of one check, as measured and in figures, and the noise of the machine that they were taken on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, TypeAlias

from pytest_quant.result.kinds import Count, Interval, Positive
from pytest_quant.spec import REFERENCE_PRECISIONS, UNKNOWN, Spread

WhichClock: TypeAlias = Literal["host", "device"]
"""What runs are timed by."""

WhichToken: TypeAlias = Literal["ttft", "tpot"]
"""The time to the first token, or that of each one after it."""

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
    """What several launches of one check say together, see `pytest_quant.stats.means`.

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
class PercentileBound:
    """An interval of one percentile of the candidate's latency, from order statistics.

    Attributes
    ----------
    percentile : which one, 0..100.
    low_ms : lower end, milliseconds per run of one batch; ``None`` where there were too few runs for it.
    high_ms : upper end, milliseconds per run of one batch; ``None`` where there were too few runs for it.
    """

    percentile: float
    low_ms: float | None
    high_ms: float | None


@dataclass(frozen=True, slots=True)
class TokenTime:
    """One time of a stream of tokens: medians over rounds, milliseconds.

    Attributes
    ----------
    name : ``ttft``, from the start of a run to its first token, or ``tpot``, per token after that.
    reference_ms : of the reference; ``None`` where it gives no tokens one after the other.
    candidate_ms : of the candidate; ``None`` where it is not known.
    candidate_ci_ms : interval of it at the level `confidence`; ``None`` where it is not known.
    """

    name: WhichToken
    reference_ms: float | None
    candidate_ms: float | None
    candidate_ci_ms: Interval | None


@dataclass(frozen=True, slots=True)
class TimedSample:
    """The sample whose shapes were timed, and the sizes of all samples.

    Attributes
    ----------
    index : in the evaluation set, from 0.
    shapes : of the timed batch, for each input that the model leaves a size but that of the batch to the data.
    sizes : elements of all inputs, in the smallest sample and in the largest.
    """

    index: Count
    shapes: Mapping[str, tuple[Count, ...]]
    sizes: tuple[Count, Count]

    @property
    def inputs(self) -> str:
        """The shapes in words, ``x 1x400x8``; of inputs of one shape the first is named."""
        named = {tuple(shape): name for name, shape in reversed([*self.shapes.items()])}
        return ", ".join(f"{name} {'x'.join(map(str, shape))}" for shape, name in reversed([*named.items()]))

    @property
    def warning(self) -> str:
        """What was timed in place of samples, of which one is more than twice as large as another; else empty."""
        smallest, largest = self.sizes
        said = f"latency is that of sample {self.index}, {self.inputs}; samples have {smallest} to {largest} elements"
        return f"{said}; latency_sample= times another" if largest > 2 * smallest else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyFigures:
    """A `LatencyResult` without its single runs.

    Attributes
    ----------
    batch_size : samples in one run, as timed.
    rounds : blocks of runs in which every engine was timed once.
    reference_p50_ms : median of the reference, milliseconds per run of one batch.
    candidate_p50_ms : median of the candidate, milliseconds per run of one batch.
    candidate_p90_ms : 90th percentile, milliseconds per run of one batch; ``None`` when there were too few runs.
    candidate_p99_ms : 99th percentile, milliseconds per run of one batch; ``None`` when there were too few runs.
    speedup : reference / candidate, > 1 is faster; ``None`` where no reference was timed.
    speedup_ci : its interval at the level `confidence`; ``None`` where no reference was timed.
    null_ratio_ci : interval of the ratio of two sessions of the reference (A/A), which should enclose 1.
    half_width_pct : half-width of the speedup's interval in percent, the detectable effect.
    percentile_bounds : intervals of the candidate's percentiles.
    reasons : named reasons why the numbers cannot be trusted; empty when they can.
    notes : named signs of noise that do not void the numbers.
    round_p50_ms : by engine, ``reference``, ``null`` and ``candidate``: the median of each round, milliseconds
        with four digits, at most 40 rounds.
    repeat : the second measurement, when the first one broke a limit.
    reference_precision : of the engine that latency is compared with: ``fp32``, ``tf32``, ``fp16`` or ``bf16``.
        Speedups against different ones are never compared.
    clock : what the runs were timed by: ``host``, or ``device`` where each engine has a clock of its own. Times by
        different clocks are never compared.
    tf32 : whether that engine's FP32 products may be rounded to TF32; ``None`` where its device has no TF32, or its
        products are not FP32.
    launches : further launches of the same check in this run, each a fresh process; this one is not among them.
    confidence : level of the intervals, 0..1; ``None`` in records of versions that did not keep it.
    looks : how often the rounds were looked at, the last time included; ``None`` in such records.
    session_sd : standard deviation between sessions that the interval of the speedup allows for, as a natural
        logarithm (0.01 is about 1 %); ``None`` in such records.
    effective_rounds : how many independent rounds say as much as these; ``None`` in such records.
    sets : how many sets of sessions were timed; `round_p50_ms` has the rounds of all of them.
    small_pages : engines on the processor were timed on the pages of 4 KB that the system gives, and not on pages of
        2 MB. Latencies with and without it are never compared.
    tokens : times of its tokens, of a candidate that streams them.
    widened : what makes the interval of the speedup wider than its rounds alone would, one sentence, or empty.
    error : standard error of log(speedup) within this launch; ``None`` with a single round, and in records without it.
    sample : which one was timed; ``None`` in records that do not say so.
    """

    batch_size: Positive
    rounds: Count
    reference_p50_ms: float | None
    candidate_p50_ms: float | None
    candidate_p90_ms: float | None
    candidate_p99_ms: float | None
    speedup: float | None
    speedup_ci: Interval | None
    null_ratio_ci: Interval | None
    half_width_pct: float | None
    percentile_bounds: tuple[PercentileBound, ...] = ()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    round_p50_ms: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    repeat: LatencyFigures | None = None
    reference_precision: Annotated[str, ("enum", REFERENCE_PRECISIONS)] = "fp32"
    tf32: bool | None = None
    clock: WhichClock = "host"
    launches: tuple[LaunchFigures, ...] = ()
    confidence: float | None = None
    looks: Count | None = None
    session_sd: float | None = None
    effective_rounds: float | None = None
    widened: str = ""
    sets: Positive = 1
    small_pages: bool = False
    tokens: tuple[TokenTime, ...] = ()
    error: float | None = None
    sample: TimedSample | None = None

    @property
    def compared_with(self) -> str:
        """What latency is compared with, ``fp32, TF32 off``; empty for FP32 on a device without TF32."""
        if self.reference_precision == "fp32":
            return "" if self.tf32 is None else "fp32, TF32 off"
        return "fp32 with TF32" if self.tf32 else self.reference_precision

    def token_time(self, name: str) -> TokenTime | None:
        """Return the time called `name` of a stream of tokens; ``None`` if it was not measured."""
        return next((time for time in self.tokens if time.name == name), None)

    def bound_of(self, percentile: float) -> PercentileBound | None:
        """Return the interval of one of the candidate's percentiles, 0..100; ``None`` where it was not measured."""
        return next((bound for bound in self.percentile_bounds if bound.percentile == percentile), None)


_RAW: Mapping[str, bool] = {"kept": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyResult(LatencyFigures):
    """Reference, null and candidate timed interleaved, round by round: the figures, with all that they are made of.

    Attributes
    ----------
    reference, null, candidate : the raw runs.
    rounds_by_set : rounds of each set of sessions, in order; several where sessions differ by more than rounds do.
    over : what all launches say together, with this one; ``None`` without further ones.
    spent_s : seconds that warming up and all rounds took.
    disturbances : kinds of what took processor time away meanwhile; `notes` say how much.
    """

    reference: Blocks = field(repr=False, metadata=_RAW)
    null: Blocks = field(repr=False, metadata=_RAW)
    candidate: Blocks = field(repr=False, metadata=_RAW)
    reference_p50_ms: float
    candidate_p50_ms: float
    speedup: float
    speedup_ci: Interval
    null_ratio_ci: Interval
    half_width_pct: float
    repeat: LatencyResult | None = field(default=None, repr=False)
    confidence: float = 0.95
    session_sd: float = 0.0
    rounds_by_set: tuple[int, ...] = field(default=(), metadata=_RAW)
    over: OverLaunches | None = field(default=None, metadata=_RAW)
    spent_s: float = field(default=0.0, metadata=_RAW)
    disturbances: tuple[str, ...] = field(default=(), metadata=_RAW)

    def wider(self, *, reach: float = 1.0, times: float = 1.0) -> LatencyResult:
        """Return the same figures with wider intervals, all of them; `repeat` is a measurement of its own, and stays.

        Parameters
        ----------
        reach : each interval's half-width, in logarithms, is so many times what it was, at least 1; of one that has a
            single end nothing is known then.
        times : after that, each end lies so many times further out, at least 1.
        """

        def span(ends: Interval) -> Interval:
            low, high = ends
            bounded = low > 0.0 and math.isfinite(high)
            stretch = (high / low) ** ((reach - 1.0) / 2.0) if bounded else 1.0 if reach == 1.0 else math.inf
            return Interval(low / (times * stretch), high * times * stretch)

        def bound(of: PercentileBound) -> PercentileBound:
            low, high = span(Interval(of.low_ms or 0.0, of.high_ms or math.inf))
            return PercentileBound(of.percentile, low or None, high if math.isfinite(high) else None)

        over, speedup_ci = self.over, span(self.speedup_ci)
        return replace(
            self,
            speedup_ci=speedup_ci,
            null_ratio_ci=span(self.null_ratio_ci),
            half_width_pct=50.0 * (speedup_ci.high - speedup_ci.low) / self.speedup,
            percentile_bounds=tuple(map(bound, self.percentile_bounds)),
            tokens=tuple(
                replace(token, candidate_ci_ms=token.candidate_ci_ms and span(token.candidate_ci_ms))
                for token in self.tokens
            ),
            over=over
            and replace(over, speedup_ci=span(over.speedup_ci), candidate_p50_ci_ms=span(over.candidate_p50_ci_ms)),
        )


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


@dataclass(frozen=True, slots=True)
class KindNoise:
    """The noise of one kind of model: how far apart equal engines lie, and the smallest limits that this leaves.

    Attributes
    ----------
    name : ``tiny``, ``compute-bound`` or ``memory-bound``.
    session_sd_pct : standard deviation of the log ratio of two sessions of one model in one process, rounds excluded.
    launch_sd_pct : standard deviation between launches of the log speedup that each gives, all noise included.
    one_pct, five_pct, five_each_pct : smallest limits that are held by one launch, by five, and by five against a
        baseline of five; see `pytest_quant.measure.selftest.held_limits`.
    draws : log ratio of the two sessions of each launch with its standard error.
    """

    name: str
    session_sd_pct: float
    launch_sd_pct: float
    one_pct: float
    five_pct: float
    five_each_pct: float
    draws: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class SelfTest:
    """One self-test of a runner.

    Attributes
    ----------
    measured_at : UTC, ISO 8601.
    backend, device : that the models ran in and on.
    planned, launches : of each kind of model, to be measured and measured.
    seconds : that it took.
    identity : of the machine, see `Environment`.
    kinds : of models.
    notes : what took processor time away meanwhile, and in how many launches.
    """

    measured_at: str
    backend: str
    device: str
    planned: int
    launches: int
    seconds: float
    identity: Mapping[str, str]
    kinds: tuple[KindNoise, ...]
    notes: tuple[str, ...] = ()
