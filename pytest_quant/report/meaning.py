"""What the figures of a broken limit mean, in a sentence that does not say them again."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_quant.record import Record
from pytest_quant.report.text import count, figure, holds, points
from pytest_quant.result import AccuracyResult, Status, Verdict

_RARE = 0.05


def meanings(record: Record) -> Iterator[str]:
    """Yield one sentence for each kind of limit that is broken."""
    broken = {verdict.limit: verdict for verdict in record.verdicts or () if verdict.status is not Status.PASS}
    if "outputs" in broken and record.accuracy is not None:
        yield from _outputs(record.accuracy)
    if "max_drop" in broken and record.accuracy is not None and record.accuracy.drop is not None:
        yield from _drop(broken["max_drop"], record.accuracy)
    if "min_accuracy" in broken and record.accuracy is not None and record.accuracy.reference is not None:
        yield "FP32 itself scores so: look at labels, preprocessing and output= before the quantization"
    if "min_speedup" in broken and record.latency is not None and record.latency.speedup:
        yield _speedup(record.latency.speedup)
    if "min_coverage" in broken and record.coverage is not None and record.coverage.pct is not None:
        missing = "the rest" if record.coverage.pct else "all"
        unit = record.coverage.unit
        yield f"{missing} of the eligible {unit} ran in float: speed and size are not those of {record.precision}"
    if "max_size_mb" in broken and record.resources is not None:
        yield f"FP32 takes {figure(record.resources.reference_size_mb)} MB"


def lost_samples(found: AccuracyResult) -> str:
    """Return ``1 of 898 samples``: how many fewer the candidate gets right; empty where scores are not 0 or 1."""
    if found.discordant is None or found.drop is None or found.unit != "%" or found.drop <= 0.0:
        return ""
    return f"{round(found.drop * found.n / 100.0)} of {count(found.n, 'sample')} lost"


def _outputs(found: AccuracyResult) -> Iterator[str]:
    kinds = {fault.kind for fault in found.faults}
    if kinds - {"constant"}:
        yield "an output cannot be compared at all, so no other figure of accuracy can be relied on"
    if "constant" in kinds:
        yield "an output is the same whatever the input, and no longer says what the reference's does"


def _drop(verdict: Verdict, found: AccuracyResult) -> Iterator[str]:
    if found.p_value is not None and found.drop is not None and found.drop > 0.0:
        if found.p_value < _RARE:
            yield "the loss is real: chance alone would hardly give one like it"
        else:
            yield "chance alone could give this loss; the limit is judged on this set as it is"
    span, allowed = found.drop_ci, verdict.allowed
    if allowed is not None and lost_samples(found) and allowed < 100.0 / found.n:
        one = f"1 of {found.n} samples, {points(100.0 / found.n)} pp"
        yield f"the limit is less than {one}: no loss at all is within it"
    if span is not None and allowed is not None and span.low <= allowed < span.high:
        told = not found.n_to_resolve or holds(verdict.reason, found.n_to_resolve)
        need = "" if told else f"; about {found.n_to_resolve} samples would tell"
        yield f"other samples of the same kind could land on the other side of the limit{need}"


def _speedup(speedup: float) -> str:
    if speedup < 1.0:
        return f"the candidate is {figure(1.0 / speedup, 3)} times slower than FP32"
    return "the candidate is faster than FP32, and that is not enough"
