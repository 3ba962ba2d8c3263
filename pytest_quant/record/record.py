"""One check, once: everything that is kept about it, with its sections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_quant.record.reader import Reader
from pytest_quant.result import (
    AccuracyResult,
    Coverage,
    Hint,
    Interval,
    OpCoverage,
    OutputError,
    OutputFault,
    Resources,
    Status,
    Verdict,
    WorstClass,
)


def accuracy(read: Reader | None) -> AccuracyResult | None:
    """Read the section ``accuracy``."""
    if read is None:
        return None
    worst = read.child("worst_class")
    return AccuracyResult(
        n=read.need_integer("n"),
        metric=read.text("metric"),
        unit=read.text("unit"),
        better=read.text("better"),
        reference=read.number("reference"),
        candidate=read.number("candidate"),
        drop=read.number("drop"),
        drop_ci=read.interval("drop_ci"),
        confidence=read.need_number("confidence"),
        p_value=read.number("p_value"),
        discordant=read.integer("discordant"),
        n_to_resolve=read.integer("n_to_resolve"),
        agreement_pct=read.number("agreement_pct"),
        sqnr_db=read.number("sqnr_db"),
        cosine=read.number("cosine"),
        max_abs_error=read.number("max_abs_error"),
        max_abs_error_sample=read.integer("max_abs_error_sample"),
        by_output=tuple(_output(name, row) for name, row in read.children_by_name("by_output").items()),
        worst_output=read.text("worst_output"),
        chance=read.number("chance"),
        kl=read.number("kl"),
        worst_class=None if worst is None else _worst_class(worst),
        faults=tuple(_fault(fault) for fault in read.children("faults")),
        reference_correct=read.text("reference_correct"),
        candidate_correct=read.text("candidate_correct"),
        identical=read.flag("identical"),
        simulated=read.flag("simulated"),
    )


def _output(name: str, read: Reader) -> OutputError:
    return OutputError(
        name,
        sqnr_db=read.number("sqnr_db"),
        cosine=read.number("cosine"),
        max_abs_error=read.number("max_abs_error"),
        sample=read.integer("sample"),
        identical=read.flag("identical"),
        reference_constant=read.flag("reference_constant"),
        group_of=read.text("group_of"),
    )


def _worst_class(read: Reader) -> WorstClass:
    return WorstClass(
        read.need_integer("label"), read.need_integer("n"), read.need_number("reference"), read.need_number("candidate")
    )


def _fault(read: Reader) -> OutputFault:
    return OutputFault(
        read.need_text("output"), read.need_text("kind"), read.need_integer("sample"), read.need_text("detail")
    )


def latency(read: Reader | None) -> LatencyFigures | None:
    """Read the section ``latency``."""
    if read is None:
        return None
    rounds = read.child("round_p50_ms")
    return LatencyFigures(
        batch_size=read.need_integer("batch_size"),
        rounds=read.need_integer("rounds"),
        reference_p50_ms=read.number("reference_p50_ms"),
        candidate_p50_ms=read.number("candidate_p50_ms"),
        candidate_p90_ms=read.number("candidate_p90_ms"),
        candidate_p99_ms=read.number("candidate_p99_ms"),
        speedup=read.number("speedup"),
        speedup_ci=read.interval("speedup_ci"),
        null_ratio_ci=read.interval("null_ratio_ci"),
        half_width_pct=read.number("half_width_pct"),
        percentile_bounds=tuple(_bound(row) for row in read.children("percentile_bounds")),
        reasons=read.texts("reasons"),
        notes=read.texts("notes"),
        round_p50_ms={} if rounds is None else {name: rounds.numbers(name) for name in rounds.names()},
        repeat=latency(read.child("repeat")),
    )


def _bound(read: Reader) -> PercentileBound:
    return PercentileBound(read.need_number("percentile"), read.number("low_ms"), read.number("high_ms"))


def coverage(read: Reader | None) -> Coverage | None:
    """Read the section ``coverage``."""
    if read is None:
        return None
    return Coverage(
        pct=read.number("pct"),
        unit=read.need_text("unit"),
        by_op=tuple(_op(name, row) for name, row in read.children_by_name("by_op").items()),
        provider=read.need_text("provider"),
        opaque_nodes=read.integer("opaque_nodes") or 0,
        float_nodes=read.texts("float_nodes"),
        notes=read.texts("notes"),
        plan_of=read.text("plan_of") or "",
        scheme_pct=read.number("scheme_pct"),
        not_quantizable=_numbers(read.child("not_quantizable")),
    )


def _numbers(read: Reader | None) -> dict[str, float]:
    return {} if read is None else {name: read.need_number(name) for name in read.names()}


def _op(name: str, read: Reader) -> OpCoverage:
    return OpCoverage(
        name,
        read.need_integer("nodes"),
        read.need_integer("quantized_nodes"),
        read.integer("macs"),
        read.integer("quantized_macs"),
        read.text("stands_for") or "",
    )


def resources(read: Reader | None) -> Resources | None:
    """Read the section ``resources``."""
    if read is None:
        return None
    return Resources(
        size_mb=read.number("size_mb"),
        reference_size_mb=read.number("reference_size_mb"),
        build_s=read.number("build_s"),
        calibration_s=read.number("calibration_s"),
        build_memory_mb=read.number("build_memory_mb"),
        run_memory_mb=read.number("run_memory_mb"),
        energy_mj=read.number("energy_mj"),
        device_memory_mb=read.number("device_memory_mb"),
        device_memory_nvml_mb=read.number("device_memory_nvml_mb"),
        plan_of=read.text("plan_of") or "",
    )


@dataclass(frozen=True, slots=True)
class PercentileBound:
    """An order-statistic interval of one percentile; ``None`` for a side that too few runs tell."""

    percentile: float
    low_ms: float | None
    high_ms: float | None


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    """A `LatencyResult` without its single runs.

    Attributes
    ----------
    batch_size : samples in one run, as timed.
    speedup : reference / candidate; > 1 is faster.
    half_width_pct : half-width of the speedup's interval in percent, the detectable effect.
    percentile_bounds : intervals of the candidate's percentiles.
    reasons : named reasons why the numbers cannot be trusted; empty when they can.
    notes : named signs of noise that do not void the numbers.
    round_p50_ms : by engine, ``reference``, ``null`` and ``candidate``: the median of each round, milliseconds
        with four digits, at most 40 rounds.
    repeat : the second measurement, when the first one broke a limit.
    """

    batch_size: int
    rounds: int
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


@dataclass(frozen=True, slots=True)
class Record:
    """One check, once. Sections are ``None`` when the check never came to be.

    Attributes
    ----------
    nodeid : the test, as pytest spells it.
    series : key of the records that this one may be compared with, see `series_key`.
    batch_size : samples in one timed run.
    reference : the reference engine's id, ``ort-fp32``.
    metric : the metric's name; ``None`` without one.
    message : why the check is ERROR or UNAVAILABLE, several lines; else empty.
    confidence : the proof that was asked for; ``None`` judges accuracy on the point estimate.
    calibration : method of a static scheme, ``minmax``; ``None`` for other schemes.
    calibration_samples : samples that it saw; ``None`` when not known.
    threads : processor threads that the candidate was given; ``None`` when its backend does not say.
    isa : instruction set of the machine, see `pytest_quant.environment.isa_tier`.
    latency_off : why latency was not measured; empty when it was.
    cache : ``engine`` and ``reference``, each ``built`` or ``hit``.
    digests : what a difference between two records can be traced to, by name.
    notes : what the reader should know beside the verdicts.
    samples : digests of the evaluated samples on their way to the run, which keeps them; ``None`` in a history.
    hints : what is worth trying about the broken limits, the best first; each was measured.
    """

    nodeid: str
    model: str
    backend: str
    precision: str
    scheme: str | None
    batch_size: int
    status: Status
    series: str
    reference: str
    metric: str | None = None
    message: str = ""
    accuracy: AccuracyResult | None = None
    latency: LatencyFigures | None = None
    coverage: Coverage | None = None
    resources: Resources | None = None
    cache: Mapping[str, str] | None = None
    verdicts: tuple[Verdict, ...] | None = None
    confidence: float | None = None
    calibration: str | None = None
    calibration_samples: int | None = None
    threads: int | None = None
    isa: str = "unknown"
    latency_off: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    samples: str | None = None
    hints: tuple[Hint, ...] = ()

    @property
    def engine_id(self) -> str:
        """The candidate's readable name, ``ort-int8-static``."""
        return "-".join(part for part in (self.backend, self.precision, self.scheme) if part)
