"""What a broken limit means, in sentences for somebody who sees the figure for the first time."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_quant.record import Record
from pytest_quant.report.text import figure, points
from pytest_quant.result import AccuracyResult, Interval, Status, Verdict

_RARE = 0.05
_SAID_OF = {"fp32": "FP32", "tf32": "FP32 with TF32"}
"""What the reference of the latency is called in a sentence, where not by its precision."""


_EXPLAINED = ("outputs", "max_drop", "min_accuracy", "min_speedup", "min_coverage", "max_size_mb")


def meanings(record: Record) -> Iterator[str]:
    """Yield one sentence for each kind of limit that is broken."""
    broken = {verdict.limit: verdict for verdict in record.verdicts or () if verdict.status is not Status.PASS}
    for limit in _EXPLAINED:
        if limit in broken:
            yield from meaning(broken[limit], record)


def meaning(verdict: Verdict, record: Record) -> Iterator[str]:
    """Yield what it means that a limit is not passed, the main sentence first; nothing where the reason says it all."""
    if record.accuracy is not None:
        yield from _of_accuracy(verdict, record.accuracy)
    latency, coverage = record.latency, record.coverage
    if verdict.limit == "min_speedup" and latency is not None and latency.speedup and latency.speedup_ci:
        against = _SAID_OF.get(latency.reference_precision, latency.reference_precision)
        yield _speedup(latency.speedup, latency.speedup_ci, against)
    if verdict.limit == "min_coverage" and verdict.status is Status.FAIL and coverage is not None:
        hidden = "" if coverage.high_pct is None else " or cannot be seen into"
        ran = f"{'the rest' if coverage.pct else 'all'} of the eligible {coverage.unit} ran in float{hidden}"
        yield f"{ran}: speed and size are not those of {record.precision}"
    if verdict.limit == "max_size_mb" and record.resources is not None:
        yield f"FP32 takes {figure(record.resources.reference_size_mb)} MB"


def _of_accuracy(verdict: Verdict, accuracy: AccuracyResult) -> Iterator[str]:
    if verdict.limit == "outputs":
        yield from _outputs(accuracy)
    if verdict.limit == "max_drop" and accuracy.drop is not None:
        yield from _drop(verdict, accuracy)
    if verdict.limit == "min_accuracy" and accuracy.reference is not None:
        yield "FP32 itself scores so: look at labels, preprocessing and output= before the quantization"


def lost_samples(accuracy: AccuracyResult) -> str:
    """Return ``1 of 898 lost``: how many samples fewer the candidate gets right; empty where scores are not 0 or 1."""
    if accuracy.discordant is None or accuracy.drop is None or accuracy.unit != "%" or accuracy.drop <= 0.0:
        return ""
    return f"{round(accuracy.drop * accuracy.n / 100.0)} of {accuracy.n} lost"


def _outputs(accuracy: AccuracyResult) -> Iterator[str]:
    kinds = {fault.kind for fault in accuracy.faults}
    if kinds - {"constant"}:
        yield "an output cannot be compared at all, so no other figure of accuracy can be relied on"
    if "constant" in kinds:
        yield "an output is the same whatever the input, and no longer says what the reference's does"


def _drop(verdict: Verdict, accuracy: AccuracyResult) -> Iterator[str]:
    if accuracy.p_value is not None and accuracy.drop is not None and accuracy.drop > 0.0:
        if accuracy.p_value < _RARE:
            yield "the loss is real: chance alone would hardly give one like it"
        else:
            yield "chance alone could give this loss; the limit is judged on this set as it is"
    span, allowed = accuracy.drop_ci, verdict.allowed
    if allowed is not None and lost_samples(accuracy) and allowed < 100.0 / accuracy.n:
        sample = f"1 of {accuracy.n} samples, {points(100.0 / accuracy.n)} pp"
        yield f"the limit is less than {sample}: no loss at all is within it"
    if span is not None and allowed is not None and span.low <= allowed < span.high:
        resolved = not accuracy.n_to_resolve or str(accuracy.n_to_resolve) in verdict.reason
        need = "" if resolved else f"; about {accuracy.n_to_resolve} samples would tell"
        yield f"other samples of the same kind could land on the other side of the limit{need}"


def _speedup(speedup: float, span: Interval, against: str) -> str:
    """Say which engine is faster, as far as the interval of the speedup over the engine `against` shows it."""
    if span.high < 1.0:
        return f"the candidate is {figure(1.0 / speedup, 3)} times slower than {against}"
    if span.low > 1.0:
        return f"the candidate is faster than {against}, and that is not enough"
    return f"no difference from {against} in speed was seen"
