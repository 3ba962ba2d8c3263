"""Checks that failed, each for another reason, and a run of all kinds of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_quant.record import Record, build_failed_record
from pytest_quant.result import (
    Hint,
    Interval,
    LaunchFigures,
    OpCoverage,
    OutputError,
    OutputFault,
    Portability,
    Status,
    Verdict,
)
from tests.unit.record.examples import (
    ACCURACY,
    COVERAGE,
    FAILED_DROP,
    LATENCY,
    a_check,
    a_pass,
    a_record,
    unavailable,
    with_latency,
)

UNLABELLED = replace(ACCURACY, metric=None, unit=None, reference=None, candidate=None, drop=None, drop_ci=None)

ELSEWHERE = Portability(
    "vnni", "measured", "vnni", "64 samples on Haswell: max_drop is broken there", 64, 14.06, 19.67, 76.56, "fc1"
)

OUTPUTS = tuple(
    OutputError(name, sqnr_db, 0.99, error, sample)
    for name, sqnr_db, error, sample in (("boxes", 17.75, 3.25, 17), ("scores", 20.5, 0.875, 3), ("mask", 33.0, 0.5, 9))
)


def _broken(limit: str, allowed: float, observed: float | None, status: Status = Status.FAIL) -> tuple[Verdict, ...]:
    return (Verdict(limit, allowed, observed, status, "because of this"),)


def failed_checks() -> Mapping[str, Record]:
    """Return checks that failed, each for another reason."""
    slow = replace(LATENCY, speedup=0.16, speedup_ci=Interval(0.15, 0.17))
    same = replace(LATENCY, speedup=0.999, speedup_ci=Interval(0.97, 1.0))
    unsure = replace(ACCURACY, p_value=0.3, drop=1.2, drop_ci=Interval(-0.5, 2.9))
    one_lost = replace(
        ACCURACY, n=898, drop=100.0 / 898, drop_ci=Interval(-0.2, 0.6), p_value=1.0, discordant=1, lost=1
    )
    float_only = replace(COVERAGE, pct=0.0, by_op=(OpCoverage("Conv", 4, 0),), opaque_nodes=2)
    fused = (
        OpCoverage("QLinearConv", 3, 3, stands_for="Conv"),
        OpCoverage("FusedConv", 2, 0, stands_for="Conv"),
        OpCoverage("LSTM", 1, 0),
    )
    dynamic = replace(COVERAGE, pct=0.91, scheme_pct=25.5, not_quantizable={"Conv": 96.43}, plan_of="TensorRT 10")
    outputs = Verdict("outputs", 0.0, 1.0, Status.FAIL, "output 'y' at sample 3: not finite", implicit=True)
    coverage = Verdict("min_coverage", 50.0, 12.5, Status.FAIL, "12.5% of MACs is below 50% of MACs", implicit=True)
    by_device = replace(LATENCY, clock="device", tf32=True)
    noisy = replace(
        LATENCY,
        reasons=("the A/A null is off",),
        notes=("the clock was adjusted",),
        candidate_p99_ms=0.3123,
    )
    hints = (
        Hint("agreement 61.20 -> 98.40 % on 64 of 5000 samples", "exclude=['fc']", "min_agreement", 61.2, 98.4),
        Hint("measure on a quiet machine: the null is off"),
    )
    undecided = Verdict("min_speedup", 3, 1.9475, Status.INCONCLUSIVE, "the null is off")
    long_paste = f"exclude={[f'model/block_{number}/conv2d' for number in range(12)]!r}"
    long_notes = tuple(f"note {number} of many, which says at some length what else was seen" for number in range(30))
    return {
        "a drop": a_record(),
        "a drop that chance could give": a_record(accuracy=unsure),
        "one sample": a_record(accuracy=one_lost, verdicts=_broken("max_drop", 0.05, 100.0 / 898)),
        "a bad reference": a_record(verdicts=_broken("min_reference_accuracy", 99.0, 97.78)),
        "a bad score": a_record(verdicts=_broken("min_accuracy", 97.5, 93.55)),
        "one limit broken, one not judged": a_record(verdicts=(undecided, FAILED_DROP)),
        "slower": a_record(a_check(scheme="dynamic"), latency=slow, verdicts=_broken("min_speedup", 1.0, 0.16)),
        "as fast": a_record(latency=same, verdicts=_broken("min_speedup", 3.0, 0.999)),
        "not fast enough, by the device's clock": a_record(
            latency=by_device, verdicts=_broken("min_speedup", 3.0, 1.95)
        ),
        "noise": a_record(latency=noisy, verdicts=_broken("max_latency_ms[p99]", 0.3, 0.3123)),
        "latency off": a_record(
            replace(a_check(), latency_off="--quant-no-latency is set"),
            latency=None,
            verdicts=_broken("min_speedup", 1.0, None, Status.INCONCLUSIVE),
            status=Status.INCONCLUSIVE,
        ),
        "accuracy off": a_record(
            replace(a_check(), accuracy_off="--quant-only-latency is set"),
            latency=slow,
            verdicts=(_broken("max_drop", 1.0, None, Status.INCONCLUSIVE)[0], *_broken("min_speedup", 1.0, 0.16)),
        ),
        "nothing quantized": a_record(
            a_check(scheme="qat"), coverage=float_only, verdicts=_broken("min_coverage", 50.0, 0.0)
        ),
        "what cannot be seen into": a_record(
            coverage=replace(COVERAGE, pct=12.0, opaque_nodes=2, high_pct=40.0),
            verdicts=_broken("min_coverage", 50.0, 12.0),
        ),
        "fused operators": a_record(coverage=replace(COVERAGE, by_op=fused, notes=("a note about coverage",))),
        "what the scheme cannot quantize": a_record(
            a_check(scheme="dynamic"), coverage=dynamic, verdicts=_broken("min_coverage", 90.5, 0.91)
        ),
        "limits that nobody wrote": a_record(verdicts=(outputs, coverage, FAILED_DROP)),
        "an output that cannot be compared": a_record(
            accuracy=replace(
                ACCURACY,
                faults=(OutputFault("logits", "not finite", 12, "NaN"), OutputFault("y", "constant", 0, "1.0")),
            ),
            verdicts=_broken("outputs", 0.0, 1.0),
        ),
        "several outputs": a_record(
            accuracy=replace(
                UNLABELLED,
                by_output=(*OUTPUTS, OutputError("same", identical=True), OutputError("text"), OutputError("other")),
                simulated=True,
            ),
            verdicts=_broken("min_sqnr_db[boxes]", 30.5, 17.75),
        ),
        "identical outputs": a_record(
            accuracy=replace(UNLABELLED, sqnr_db=None, identical=True), verdicts=_broken("max_size_mb", 0.04, 0.0456)
        ),
        "advice": replace(a_record(verdicts=_broken("min_agreement", 99.0, 61.2)), hints=hints, notes=("a note",)),
        "other processors": replace(
            a_record(verdicts=(Verdict("cpus", None, None, Status.FAIL, f"holds only with VNNI: {ELSEWHERE.reason}"),)),
            portability=ELSEWHERE,
        ),
        "more than a screen": replace(
            a_record(), hints=(Hint("SQNR 12.5 -> 31.25 dB", long_paste, "min_sqnr_db"), hints[1]), notes=long_notes
        ),
        "no runtime": unavailable(),
        "no failure": a_pass(),
    }


def with_launches(record: Record) -> Record:
    """Return the record with a second launch and a repeated measurement."""
    figures = (LaunchFigures("2026-01-02T03:04:05+00:00", 1.9, 0.24, 0.46),)
    return with_latency(record, launches=figures, repeat=record.latency, widened="sessions differ")


def named(*records: Record) -> list[Record]:
    """Return the records as those of tests of their own."""
    return [replace(record, nodeid=f"tests/test_{n}.py::test_it[{n}]") for n, record in enumerate(records)]


def run_of_all_kinds() -> list[Record]:
    """Return a run with every status, several metrics, units and schemes."""
    dynamic = replace(COVERAGE, pct=8.25, high_pct=9.5, not_quantizable={"Conv": 91.75})
    within = Verdict("min_coverage", 5.0, 8.25, Status.PASS, "")
    missing = build_failed_record(
        a_check(), status=Status.ERROR, message="there is no file model.onnx\n  next: write one"
    )
    better = replace(ACCURACY, candidate=97.9, drop=-0.12, drop_ci=Interval(-0.25, 12.5))
    doubtful = replace(LATENCY, reasons=("the A/A null is off",), speedup=0.16893, tf32=False)
    open_limit = Verdict("min_speedup", 1.5, 1.6, Status.INCONCLUSIVE, "[1.4, 1.8] encloses 1.5")
    other = replace(ACCURACY, metric="mse", unit="", reference=0.01234, candidate=0.01345, drop=0.00111, drop_ci=None)
    return named(
        a_record(),
        a_pass(),
        unavailable(),
        missing.record,
        a_record(a_check(precision="fp32", scheme=None), latency=None, verdicts=(), status=Status.PASS),
        a_record(a_check(scheme="dynamic"), coverage=dynamic, verdicts=(within,), status=Status.PASS),
        a_record(accuracy=better, latency=doubtful, verdicts=(open_limit,), status=Status.INCONCLUSIVE),
        a_record(accuracy=other, latency=replace(LATENCY, batch_size=32, reference_precision="fp16")),
        a_record(a_check(model="模型"), accuracy=replace(UNLABELLED, simulated=True)),
        a_record(accuracy=replace(UNLABELLED, sqnr_db=None, identical=True)),
    )
