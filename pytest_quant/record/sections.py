"""The sections of a record, read back from JSON; each is ``None`` where the section is null."""

from __future__ import annotations

from pytest_quant.record.reader import Reader
from pytest_quant.record.record import LatencyFigures, PercentileBound
from pytest_quant.result import AccuracyResult, Coverage, OpCoverage, OutputError, OutputFault, Resources, WorstClass


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
