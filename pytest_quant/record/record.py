"""One check, once: everything that is kept about it, with its sections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from pytest_quant.result import (
    AccuracyResult,
    Count,
    Coverage,
    Hint,
    Interval,
    LaunchFigures,
    Positive,
    Resources,
    Status,
    Verdict,
    WhichClock,
)
from pytest_quant.spec import PRECISIONS, REFERENCE_PRECISIONS, SCHEMES

_Origin: TypeAlias = Annotated[str, ("enum", ("built", "hit"))]


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
    widened : what makes the interval of the speedup wider than its rounds alone would, one sentence, or empty.
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

    @property
    def compared_with(self) -> str:
        """What latency is compared with, ``fp32, TF32 off``; empty for FP32 on a device without TF32."""
        if self.reference_precision == "fp32":
            return "" if self.tf32 is None else "fp32, TF32 off"
        return "fp32 with TF32" if self.tf32 else self.reference_precision

    def bound_of(self, percentile: float) -> PercentileBound | None:
        """Return the interval of one of the candidate's percentiles, 0..100; ``None`` where it was not measured."""
        return next((bound for bound in self.percentile_bounds if bound.percentile == percentile), None)


@dataclass(frozen=True, slots=True)
class Record:
    """One check, once. Sections are ``None`` when the check never came to be.

    Attributes
    ----------
    nodeid : the test, as pytest spells it.
    model : name of the model.
    backend : the runtime of the candidate, as the mark names it.
    precision : of the candidate; ``unknown`` in records imported from other tools.
    scheme : how the candidate is quantized; ``None`` for precisions that are not quantized.
    status : the worst of the verdicts.
    series : key of the records that this one may be compared with, a JSON list as text: node id, model, backend,
        precision, scheme, batch size and metric.
    accuracy : candidate against reference over the evaluation set.
    latency : the timing; ``None`` also where it was off, see `latency_off`.
    coverage : what ran in the asked precision.
    resources : size, memory, build time and energy.
    verdicts : one for each limit.
    batch_size : samples in one timed run.
    reference : the reference engine's id, ``ort-fp32``.
    metric : the metric's name; ``None`` without one.
    message : why the check is ERROR or UNAVAILABLE, several lines; else empty.
    confidence : the level that ``--quant-confidence`` asks for; ``None`` judges `max_drop` on the measured value.
    calibration : method of a static scheme, ``minmax``; ``None`` for other schemes.
    calibration_samples : samples that it saw; ``None`` when not known.
    threads : processor threads that the candidate was given; ``None`` when its backend does not say.
    isa : best instruction set of the machine for int8, ``avx512_vnni`` for example.
    latency_off : why latency was not measured; empty when it was.
    cache : of ``engine`` and ``reference``, whether it was built in this run or found in the cache (``hit``).
    digests : of the model, the engines and the data, by name: what a difference between two records comes from.
    notes : what else the reader should know, one sentence each.
    hints : what is worth trying about the broken limits, the best first; each was measured.
    """

    nodeid: str
    model: str
    backend: str
    precision: Annotated[str, ("enum", (*PRECISIONS, "unknown"))]
    scheme: Annotated[str, ("enum", SCHEMES)] | None
    batch_size: Positive
    status: Status
    series: str
    reference: str
    metric: str | None = None
    message: str = ""
    accuracy: AccuracyResult | None = None
    latency: LatencyFigures | None = None
    coverage: Coverage | None = None
    resources: Resources | None = None
    cache: Annotated[Mapping[str, _Origin], ("required", ("engine", "reference"))] | None = None
    verdicts: tuple[Verdict, ...] | None = None
    confidence: float | None = None
    calibration: str | None = None
    calibration_samples: Count | None = None
    threads: Positive | None = None
    isa: str = "unknown"
    latency_off: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    hints: tuple[Hint, ...] = ()

    @property
    def engine_id(self) -> str:
        """The candidate's readable name, ``ort-int8-static``."""
        return "-".join(part for part in (self.backend, self.precision, self.scheme) if part)
