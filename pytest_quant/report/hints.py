"""What to try when a limit is broken, each with the figure that suggests it."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_quant.record import Record
from pytest_quant.report.text import figure, points
from pytest_quant.result import AccuracyResult, Coverage, OpCoverage, Status

_ACCURACY = {
    "max_drop",
    "min_ratio",
    "min_agreement",
    "min_sqnr_db",
    "min_cosine",
    "max_abs_error",
    "max_drop_increase",
}
_SPEED = {"max_latency_ms", "min_speedup", "max_slowdown"}
_FEW_CALIBRATION_SAMPLES = 100
_OVERHEAD_MS = 0.1
_MATRIX_OPS = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
_NARROW_X86 = {"sse", "avx2", "avx512"}
"""Instruction sets of x86 without int8 dot products."""


def hints(record: Record) -> Iterator[str]:
    """Yield what to try, the most telling first."""
    broken = (verdict for verdict in record.verdicts or () if verdict.status is not Status.PASS)
    limits = {verdict.limit.partition("[")[0] for verdict in broken}
    on_latency = bool(limits & _SPEED)
    if "outputs" in limits:
        yield "look at the output named above; keep the nodes before that output in float: exclude=[...]"
    if "min_coverage" in limits:
        yield from _on_coverage(record)
    if "min_accuracy" in limits and record.accuracy is not None:
        score = figure(record.accuracy.reference)
        yield f"FP32 itself scores {score}: check labels, preprocessing and output= before the quantization"
    if limits & _ACCURACY and record.accuracy is not None:
        yield from _on_accuracy(record, record.accuracy)
    if on_latency:
        yield from _on_latency(record)
    if "max_size_mb" in limits and record.resources is not None and record.coverage is not None:
        sizes = f"{figure(record.resources.reference_size_mb)} -> {figure(record.resources.size_mb)} MB"
        yield f"weights that stayed in float keep their size ({sizes}, coverage {points(record.coverage.pct)} %)"


def _on_coverage(record: Record) -> Iterator[str]:
    found = record.coverage
    if found is None:
        return
    if record.scheme == "qat" and found.pct == 0.0:
        yield (
            f"{found.provider} fused none of the Q/DQ pairs: a graph made for another runtime, TensorRT for example, "
            "often lacks the pair behind each node; quantize it for this one"
        )
    if found.opaque_nodes:
        yield f"{found.opaque_nodes} fused nodes cannot be seen into and count as float"
    if found.float_nodes:
        names = ", ".join(found.float_nodes)
        yield f"look for the nodes that ran in float in exclude=, in op_types and in the model: {names}"


def _on_accuracy(record: Record, found: AccuracyResult) -> Iterator[str]:
    if record.coverage is not None:
        yield from _on_other_ops(record.backend, record.coverage)
    samples = record.calibration_samples
    if samples is not None and samples < _FEW_CALIBRATION_SAMPLES:
        yield f"calibrate on more samples than {samples}; {_FEW_CALIBRATION_SAMPLES} to 500 are usual"
    if record.calibration == "minmax":
        worst = found.max_abs_error
        told = "" if worst is None else f" (largest error {figure(worst)} at sample {found.max_abs_error_sample})"
        yield f"calibration='entropy' or 'percentile': minmax lets single outliers stretch the range{told}"
    if found.worst_class is not None and found.worst_class.candidate < found.worst_class.reference:
        worst_class = found.worst_class
        scores = f"{points(worst_class.reference)} -> {points(worst_class.candidate)} % of {worst_class.n}"
        yield f"class {worst_class.label} lost most ({scores}): put more of it into the calibration samples"
    if record.precision == "int8" and record.isa in _NARROW_X86 and record.backend.startswith("ort"):
        yield f"this CPU ({record.isa}) has no VNNI, so weights have 7 bits by default; with VNNI they have 8"


def _on_other_ops(backend: str, coverage: Coverage) -> Iterator[str]:
    others = [op for op in coverage.by_op if op.quantized_nodes and op.op_type not in _MATRIX_OPS]
    if others and backend.startswith("ort"):
        told = ", ".join(f"{op.op_type} ({op.quantized_nodes})" for op in others[:4])
        yield f"quantize matrix products only, options={{'op_types': ['MatMul', 'Conv']}}: int8 ran in {told} too"


def _on_latency(record: Record) -> Iterator[str]:
    latency, coverage = record.latency, record.coverage
    if latency is None:
        return
    for reason in latency.reasons:
        remedy = (
            "give it more time, --quant-max-time=60" if "too few rounds" in reason else "measure on a quiet machine"
        )
        yield f"{remedy}: {reason}"
    if record.scheme == "dynamic":
        speedup = figure(latency.speedup)
        yield f"scheme='static': dynamic finds the ranges of activations anew in every run (x{speedup} here)"
    slow = [] if coverage is None else [op for op in coverage.by_op if op.quantized_nodes < op.nodes]
    if slow and coverage is not None:
        told = ", ".join(_in_float(op) for op in slow[:4])
        yield f"coverage is {points(coverage.pct)} % of {coverage.unit}; in float ran {told}"
    if record.precision == "int8" and record.isa in _NARROW_X86:
        yield f"this CPU ({record.isa}) has no int8 dot product (VNNI); int8 is often no faster than FP32 on it"
    reference_ms = latency.reference_p50_ms
    if reference_ms is not None and reference_ms < _OVERHEAD_MS:
        yield f"a run takes {figure(reference_ms)} ms, mostly overhead: time larger batches, batch_size=32"


def _in_float(op: OpCoverage) -> str:
    return f"{op.op_type} ({op.nodes - op.quantized_nodes} of {op.nodes} nodes)"
