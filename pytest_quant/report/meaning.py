"""What a broken limit means, in sentences for somebody who sees the figure for the first time."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_quant.record import Record
from pytest_quant.report.text import count, figure, holds, points
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


def _of_accuracy(verdict: Verdict, found: AccuracyResult) -> Iterator[str]:
    if verdict.limit == "outputs":
        yield from _outputs(found)
    if verdict.limit == "max_drop" and found.drop is not None:
        yield from _drop(verdict, found)
    if verdict.limit == "min_accuracy" and found.reference is not None:
        yield "FP32 itself scores so: look at labels, preprocessing and output= before the quantization"


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


def _speedup(speedup: float, span: Interval, against: str) -> str:
    """Say which engine is faster, as far as the interval of the speedup over the engine `against` shows it."""
    if span.high < 1.0:
        return f"the candidate is {figure(1.0 / speedup, 3)} times slower than {against}"
    if span.low > 1.0:
        return f"the candidate is faster than {against}, and that is not enough"
    return f"no difference from {against} in speed was seen"
