"""Why a check failed, on one screen, with the meaning of each broken figure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from pytest_quant.printable import clean, guard_lines
from pytest_quant.record import Record
from pytest_quant.report.details import DetailSection, details, lost_samples
from pytest_quant.report.summary import name_of
from pytest_quant.report.text import NOT_MEASURED, count, figure, points
from pytest_quant.result import AccuracyResult, Interval, Status, Verdict
from pytest_quant.spec import LIMITS
from pytest_quant.verdict.rules import apart, written

_MAX_LINES = 25
_WIDTH = 100
_LEAST_WIDTH = 40
_LABEL = 10
_SECTIONS = ("Accuracy", "Latency", "Coverage")

_RARE = 0.05
_SAID_OF = {"fp32": "FP32", "tf32": "FP32 with TF32"}
"""What the reference of the latency is called in a sentence, where not by its precision."""
_EXPLAINED = ("outputs", "max_drop", "min_accuracy", "min_speedup", "min_coverage", "max_size_mb")


def failure(record: Record, width: int = _WIDTH) -> str:
    """Return which limit is broken, what was measured and means, and what to try.

    At most 25 lines of `width` characters, and of 100, without escapes of a terminal, whatever the names contain. The
    first thing to try is written whole, in more lines if need be, since a part of it cannot be pasted.
    """
    width = max(_LEAST_WIDTH, min(width, _WIDTH))
    broken = broken_first(record)
    head = textwrap.wrap(f"{name_of(record)}: {_summary(record, broken)}", width)
    blocks = [("limit", _limit(verdict)) for verdict in broken]
    blocks += [
        (section.title.lower(), text)
        for section in details(record)
        if section.title in _SECTIONS
        for text in _texts(section, broken)
    ]
    blocks += [("means", text) for text in meanings(record)]
    hints = [("try", f"- {hint.paste}: {hint.text}" if hint.paste else f"- {hint.text}") for hint in record.hints]
    notes = [("note", text) for text in record.notes]
    lines = [*head, *_lines([*blocks, *hints, *notes], width)]
    if len(lines) > _MAX_LINES:
        advice = _lines(hints[:1], width)
        room = max(_MAX_LINES - 1 - len(advice), len(head) + 1)
        lines = [*head, *_lines(blocks, width)][:room]
        most = max(len(advice), _MAX_LINES - 1 - len(lines))
        lines += [*_lines([*hints, *notes], width)[:most], "... --quant-json FILE writes all of it"]
    return guard_lines("\n".join(lines))


def broken_first(record: Record) -> list[Verdict]:
    """Return the verdicts that are not passed, the worst first."""
    order = list(Status)
    open_ones = (verdict for verdict in record.verdicts or () if verdict.status is not Status.PASS)
    return sorted(open_ones, key=lambda verdict: order.index(verdict.status))


def _texts(section: DetailSection, broken: list[Verdict]) -> Iterator[str]:
    """Yield a text for each group of figures, then the sentences; of a coverage that is too low, all figures."""
    too_low = section.title == "Coverage" and any(verdict.limit == "min_coverage" for verdict in broken)
    for group in (*section.groups, section.further if too_low else ()):
        if group:
            yield "; ".join(f"{label} {text}" for label, text in group)
    yield from section.lines


def _lines(blocks: list[tuple[str, str]], width: int) -> list[str]:
    """Return the lines of labelled texts; a label is written once, before the first of them."""
    lines: list[str] = []
    before = ""
    for label, text in blocks:
        first = f"  {'' if label == before else label:<{_LABEL}}"
        lines += textwrap.wrap(clean(text), width, initial_indent=first, subsequent_indent=" " * (_LABEL + 4))
        before = label
    return lines


def _summary(record: Record, broken: list[Verdict]) -> str:
    """Return why there is no check, or how many limits of the mark are broken, and the others, which nobody wrote."""
    if record.message:
        return f"{record.status.value}: {'; '.join(clean(line.strip()) for line in record.message.splitlines())}"
    failed = [verdict for verdict in broken if verdict.status is Status.FAIL]
    word, verdicts = ("broken", failed) if failed else ("not judged", broken)
    parts = [] if failed else [record.status.value]
    own = [verdict for verdict in verdicts if not verdict.implicit]
    if own:
        total = sum(not verdict.implicit for verdict in record.verdicts or ())
        parts.append(f"{len(own)} of {count(total, 'limit')} {word}")
    defaults = [verdict.limit for verdict in verdicts if verdict.implicit]
    parts += [f"outputs {word}" if limit == "outputs" else f"the default of {limit} {word}" for limit in defaults]
    return clean("; ".join(parts))


def headline(record: Record) -> str:
    """Return the first broken limit with both figures, ``max_drop 2.31 > 1.0 pp``; empty where none can be told so.

    It is for one line of a list; the number of further broken limits follows.
    """
    failed = [verdict for verdict in record.verdicts or () if verdict.status is Status.FAIL]
    if not failed:
        return ""
    # A fault of an output has no figures, and is named last.
    verdict = min(failed, key=lambda verdict: verdict.limit == "outputs")
    if verdict.limit == "outputs" or verdict.allowed is None or verdict.observed is None:
        colon = ":" if verdict.limit == "outputs" else ""
        text = f"{clean(verdict.limit)}{colon} {clean(verdict.reason)}"
    else:
        sign = ">" if verdict.limit.startswith("max_") else "<" if verdict.observed < verdict.allowed else "<="
        allowed, observed = both_figures(verdict, record)
        text = f"{clean(verdict.limit)} {observed.split()[0]} {sign} {allowed}"
    return text + (f" (and {len(failed) - 1} more)" if len(failed) > 1 else "")


def both_figures(verdict: Verdict, record: Record) -> tuple[str, str]:
    """Return what a limit allows and what was observed, each in its unit; ``-`` for what there is not."""
    unit, allowed, observed = _limit_unit(verdict.limit, record), verdict.allowed, verdict.observed
    was = NOT_MEASURED if allowed is None else f"{written(allowed)} {unit}".rstrip()
    if observed is None:
        return was, NOT_MEASURED
    return was, f"{figure(observed) if allowed is None else apart(observed, allowed, 3)} {unit}".rstrip()


def _limit_unit(limit: str, record: Record) -> str:
    """Return the unit of a limit, which some have by their row and some by the metric."""
    name = limit.partition("[")[0]
    unit = (record.accuracy.unit if record.accuracy else None) or ""
    if name in ("max_drop", "max_drop_increase"):
        return "pp" if unit == "%" else clean(unit)
    if name == "min_accuracy":
        return clean(unit)
    return LIMITS[name].unit if name in LIMITS else ""


def _limit(verdict: Verdict) -> str:
    """Return the limit with its reason, and with both figures where the reason does not have what is allowed."""
    status = "" if verdict.status is Status.FAIL else f"{verdict.status.value}: "
    allowed = "" if verdict.allowed is None else written(verdict.allowed)
    figures = [f"observed {figure(verdict.observed, 6)}"] if verdict.observed is not None else []
    figures += [f"allowed {allowed}"] if allowed else []
    said = verdict.limit == "outputs" or not figures or (allowed and allowed in verdict.reason)
    return f"{verdict.limit}: {status}{'' if said else ', '.join(figures) + ': '}{verdict.reason}"


def meanings(record: Record) -> Iterator[str]:
    """Yield what each broken limit means, the main sentence first; nothing where a verdict's reason says it all."""
    broken = {verdict.limit: verdict for verdict in record.verdicts or () if verdict.status is not Status.PASS}
    for limit in _EXPLAINED:
        if limit in broken:
            yield from meaning(broken[limit], record)


def meaning(verdict: Verdict, record: Record) -> Iterator[str]:
    """Yield what it means that one limit is not passed, see `meanings`."""
    accuracy, latency, coverage = record.accuracy, record.latency, record.coverage
    if verdict.limit == "outputs" and accuracy is not None:
        kinds = {fault.kind for fault in accuracy.faults}
        if kinds - {"constant"}:
            yield "an output cannot be compared at all, so no other figure of accuracy can be relied on"
        if "constant" in kinds:
            yield "an output is the same whatever the input, and no longer says what the reference's does"
    if verdict.limit == "max_drop" and accuracy is not None and accuracy.drop is not None:
        yield from _drop(verdict, accuracy)
    if verdict.limit == "min_accuracy" and accuracy is not None and accuracy.reference is not None:
        yield "FP32 itself scores so: look at labels, preprocessing and output= before the quantization"
    if verdict.limit == "min_speedup" and latency is not None and latency.speedup and latency.speedup_ci:
        against = _SAID_OF.get(latency.reference_precision, latency.reference_precision)
        yield _speedup(latency.speedup, latency.speedup_ci, against)
    if verdict.limit == "min_coverage" and verdict.status is Status.FAIL and coverage is not None:
        hidden = "" if coverage.high_pct is None else " or cannot be seen into"
        ran = f"{'the rest' if coverage.pct else 'all'} of the eligible {coverage.unit} ran in float{hidden}"
        yield f"{ran}: speed and size are not those of {record.precision}"
    if verdict.limit == "max_size_mb" and record.resources is not None:
        yield f"FP32 takes {figure(record.resources.reference_size_mb)} MB"


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
        need = f"; about {accuracy.n_to_resolve} samples would tell" if accuracy.n_to_resolve else ""
        yield f"other samples of the same kind could land on the other side of the limit{need}"


def _speedup(speedup: float, span: Interval, against: str) -> str:
    """Say which engine is faster, as far as the interval of the speedup over the engine `against` shows it."""
    if span.high < 1.0:
        return f"the candidate is {figure(1.0 / speedup, 3)} times slower than {against}"
    if span.low > 1.0:
        return f"the candidate is faster than {against}, and that is not enough"
    return f"no difference from {against} in speed was seen"
