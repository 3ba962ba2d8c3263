"""Records that tests of records, histories and reports share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_quant.record import Record, Run, build_failed_record, build_record
from pytest_quant.result import (
    AccuracyResult,
    Baseline,
    Blocks,
    Cause,
    ClassScore,
    Coverage,
    Environment,
    Interval,
    LatencyResult,
    Measured,
    OpCoverage,
    OutputError,
    PercentileBound,
    RangeRow,
    Resources,
    SiteRow,
    Status,
    Step,
    Verdict,
    WorstClass,
)
from pytest_quant.spec import Check, Dataset, EngineSpec, Model, SeriesKey
from pytest_quant.verdict import Judge

NODEID = "tests/test_digits.py::test_int8[ort-int8-static]"

BLOCKS = Blocks(runs_ns=((100_000, 110_000, 120_000), (101_000, 103_000)), cold_ns=(900_000,))

ACCURACY = AccuracyResult(
    n=1797,
    metric="top1",
    unit="%",
    better="higher",
    reference=97.78,
    candidate=93.55,
    drop=4.23,
    drop_ci=Interval(3.18, 5.31),
    p_value=0.00012,
    discordant=84,
    lost=80,
    n_to_resolve=520,
    agreement_pct=94.83,
    sqnr_db=21.37,
    cosine=0.98765,
    max_abs_error=3.25,
    max_abs_error_sample=17,
    by_output=(OutputError("scores", 21.37, 0.98765, 3.25, 17),),
    worst_output="scores",
    kl=0.0123,
    worst_class=WorstClass(7, 178, 98.31, 71.91),
    by_class=(ClassScore(0, 182, 99.4505, 98.3516), ClassScore(7, 178, 98.3146, 71.9101)),
)

LATENCY = LatencyResult(
    batch_size=1,
    rounds=16,
    reference=BLOCKS,
    null=BLOCKS,
    candidate=BLOCKS,
    reference_p50_ms=0.4567,
    candidate_p50_ms=0.2345,
    candidate_p90_ms=0.2789,
    candidate_p99_ms=None,
    percentile_bounds=(PercentileBound(50.0, 0.2301, 0.2389), PercentileBound(99.0, 0.29, None)),
    speedup=1.9475,
    speedup_ci=Interval(1.9012, 1.9888),
    null_ratio_ci=Interval(0.995, 1.004),
    half_width_pct=2.25,
)

COVERAGE = Coverage(
    pct=87.5,
    unit="MACs",
    by_op=(OpCoverage("Conv", 4, 3, 8_000_000, 7_000_000), OpCoverage("MatMul", 2, 2, None, None)),
    provider="CPUExecutionProvider",
    float_nodes=("/conv1/Conv",),
)

RESOURCES = Resources(size_mb=0.0456, reference_size_mb=0.1712, build_s=1.25, calibration_s=0.75, run_memory_mb=12.5)

CAUSE = Cause(
    stage="calibration",
    nodes=("/conv1/Conv", "/fc/Gemm"),
    regains=3.93,
    text="2 of 3 ranges do not fit the evaluation samples",
    without="max_drop 4.23 -> 0.30 pp on 64 of 1797 samples",
    steps=(Step("the engine", 12.12), Step("weights alone rounded", 40.25), Step("nothing", None)),
    ranges=(
        RangeRow(("/relu1/Relu",), (0.0, 2.5), (0.0, 2.0)),
        RangeRow(("/conv1/Conv", "/relu1/Relu"), (0.0, 255.0), (-2.0, 2.0)),
        RangeRow(("/fc/Gemm",), (-0.5, 0.5), (-1.0, 1.0)),
    ),
    sites=(
        SiteRow(("/conv1/Conv",), "activations", -2.5, None, 1.5),
        SiteRow(("/fc/Gemm",), "weights", 81.25, 14.2, 34.0),
    ),
    unseen=("the model is a file, so nobody saw how it was exported",),
)

FAILED_DROP = Verdict("max_drop", 1.0, 4.23, Status.FAIL, "4.23 pp is above 1.0 pp")
PASSED_COVERAGE = Verdict("min_coverage", 50.0, 87.5, Status.PASS, "87.5% of MACs reaches 50.0% of MACs")

RUN = Run(
    id="20260102T030405Z-0123456789ab",
    started_at="2026-01-02T03:04:05+00:00",
    commit="c0ffee" * 6 + "c0ff",
    branch="main",
    dirty=False,
    environment=Environment({"cpu": "Some CPU", "isa": "avx2", "cores": "2"}, {"python": "3.11.7"}),
)

LATER = replace(RUN, id="20260203T000000Z-later", started_at="2026-02-03T00:00:00+00:00", branch=None)


def a_check(
    backend: str = "ort", precision: str = "int8", scheme: str | None = "static", model: str = "digits"
) -> Check:
    """A check as a mark would ask for it."""
    network = Model(model)
    return Check(
        nodeid=NODEID,
        series_nodeid="tests/test_digits.py::test_int8",
        candidate=EngineSpec(backend, precision, scheme, network),
        reference=EngineSpec(backend, "fp32", None, network),
        dataset=Dataset.from_arrays([[0.0]], [0]),
    )


def a_measurement(
    check: Check | None = None,
    *,
    accuracy: AccuracyResult = ACCURACY,
    latency: LatencyResult | None = LATENCY,
    coverage: Coverage = COVERAGE,
    resources: Resources = RESOURCES,
    cached: bool = False,
) -> Measured:
    """What was found about a check."""
    word = "hit" if cached else "built"
    return Measured(
        check=check or a_check(),
        accuracy=accuracy,
        latency=latency,
        coverage=coverage,
        resources=resources,
        cache={"engine": word, "reference": word},
        digests={"engine": "abc123", "data": "def456"},
        builds={"engine": "first build"},
        calibration_samples=64,
    )


def verdicts_on(measured: Measured, baseline: Baseline | str | None = None) -> tuple[Verdict, ...]:
    """Judge a check beside a baseline."""
    return Judge(measured.check.limits, baseline).verdicts(measured)


def a_record(
    check: Check | None = None,
    *,
    accuracy: AccuracyResult = ACCURACY,
    latency: LatencyResult | None = LATENCY,
    coverage: Coverage = COVERAGE,
    resources: Resources = RESOURCES,
    verdicts: tuple[Verdict, ...] = (FAILED_DROP, PASSED_COVERAGE),
    status: Status = Status.FAIL,
    cached: bool = False,
) -> Record:
    """The record of a check that was measured."""
    measured = a_measurement(
        check, accuracy=accuracy, latency=latency, coverage=coverage, resources=resources, cached=cached
    )
    # What a screen shows must not be the processor of today.
    return replace(build_record(measured, status=status, verdicts=verdicts).record, isa="avx512_vnni")


def series_of(test: str, scheme: str = "static") -> str:
    """The key of a test's series, as text."""
    return SeriesKey(test, "digits", "ort", "int8", scheme, 1, "top1").text


def a_pass() -> Record:
    """A record without a fault."""
    fine = replace(ACCURACY, candidate=97.5, drop=0.28, drop_ci=Interval(-0.11, 0.67))
    within = Verdict("max_drop", 1.0, 0.28, Status.PASS, "0.28 pp is within 1.0 pp")
    return a_record(accuracy=fine, verdicts=(within, PASSED_COVERAGE), status=Status.PASS, cached=True)


def with_accuracy(record: Record, **figures: Any) -> Record:
    """The record with other figures of its accuracy."""
    assert record.accuracy is not None
    return replace(record, accuracy=replace(record.accuracy, **figures))


def with_latency(record: Record, **figures: Any) -> Record:
    """The record with other figures of its latency."""
    assert record.latency is not None
    return replace(record, latency=replace(record.latency, **figures))


def unavailable() -> Record:
    """The record of a check whose runtime is not here."""
    message = (
        "backend 'ort-cuda' cannot run here: onnxruntime-gpu is not installed\n  next: pip install onnxruntime-gpu"
    )
    return build_failed_record(a_check(backend="ort-cuda"), status=Status.UNAVAILABLE, message=message).record
