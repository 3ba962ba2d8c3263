"""Why a check failed, on one screen, with the meaning of each broken figure."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping

from pytest_quant.printable import clean, guard_lines
from pytest_quant.record import Record
from pytest_quant.report.details import DetailSection, details, lost_samples
from pytest_quant.report.text import NOT_MEASURED, count, figure, points
from pytest_quant.result import AccuracyResult, Coverage, Interval, Status, Verdict
from pytest_quant.spec import LIMITS, OWN_SCORES, limits_on
from pytest_quant.verdict.rules import apart, written

_MAX_LINES = 24
_WIDTH = 100
_MOST_WIDTH = 160
_LEAST_WIDTH = 40
_LABEL = 10
_SECTIONS: Mapping[str, Collection[str]] = {
    "Accuracy": ("outputs", *limits_on("score", "reference", "accuracy", "output")),
    "Latency": limits_on("latency"),
    "Coverage": limits_on("coverage"),
}
"""Each section with the limits that it is about; where none of them is broken its first line is enough."""

SINCE = "since the last PASS"
"""Begins the note on what changed since then, which is told right below the limit: a cause comes before its cures."""

_OF_CACHE = ("engine built:", "reference outputs built:")
"""Begin notes that compare with whatever the cache had last, which may be of another test."""

_RARE = 0.05
_SAID_OF = {"fp32": "FP32", "tf32": "FP32 with TF32"}
"""What the reference of the latency is called in a sentence, where not by its precision."""
_EXPLAINED = (*("outputs", "max_drop", *OWN_SCORES, "min_speedup", "max_latency_ms", "min_coverage", "max_size_mb"),)


def failure(record: Record, width: int = _WIDTH) -> str:
    """Return which limit is broken, what changed since it held, what was measured and means, and what to try.

    At most 24 lines of `width` characters, and of 160, without escapes of a terminal, whatever the names contain. The
    first thing to try is written whole, in more lines if need be, since a part of it cannot be pasted.
    """
    width = max(_LEAST_WIDTH, min(width, _MOST_WIDTH))
    broken = broken_first(record)
    head = textwrap.wrap(clean(f"{record.model} {record.engine_id}: {_summary(record, broken)}"), width)
    blocks = [("limit", _limit(verdict)) for verdict in broken]
    blocks += [("changed", note) for note in record.notes if note.startswith(SINCE)]
    blocks += [("means", text) for text in meanings(record)]
    blocks += [(section.title.lower(), text) for section in details(record) for text in _texts(section, broken)]
    hints = [("try", f"- {hint.paste}: {hint.text}" if hint.paste else f"- {hint.text}") for hint in record.hints]
    notes = [("note", text) for text in record.notes if not text.startswith((SINCE, *_OF_CACHE))]
    lines = [*head, *_lines([*blocks, *hints, *notes], width)]
    if len(lines) > _MAX_LINES:
        first, advice = len(_lines(hints[:1], width)), len(_lines(hints, width))
        room = max(_MAX_LINES - 1 - max(first, min(advice, _MAX_LINES // 2)), len(head) + 1)
        # Texts are left out whole, those that matter least first.
        while len(blocks) > 1 and len(head) + len(_lines(blocks, width)) > room:
            blocks.pop()
        lines = [*head, *_lines(blocks, width)][:room]
        most = max(first, _MAX_LINES - 1 - len(lines))
        lines += [*_lines([*hints, *notes], width)[:most], "... --quant-json FILE writes all of it"]
    return guard_lines("\n".join(lines))


def broken_first(record: Record) -> list[Verdict]:
    """Return the verdicts that are not passed, the worst first."""
    order = list(Status)
    open_ones = (verdict for verdict in record.verdicts or () if verdict.status is not Status.PASS)
    return sorted(open_ones, key=lambda verdict: order.index(verdict.status))


def _texts(section: DetailSection, broken: list[Verdict]) -> list[str]:
    """Return a text for each group of figures, then the sentences; the first alone where no broken limit needs more.

    Of a coverage that is too low, all figures are told; of what is in no failure, none.
    """
    if section.title not in _SECTIONS:
        return []
    concerned = any(_kind(verdict) in _SECTIONS[section.title] for verdict in broken)
    groups = filter(None, (*section.groups, section.further if concerned and section.title == "Coverage" else ()))
    texts = [*("; ".join(f"{label} {text}" for label, text in group) for group in groups), *section.lines]
    return texts if concerned else texts[:1]


def _kind(verdict: Verdict) -> str:
    """Return the limit without the output or the percentile that it names."""
    return verdict.limit.partition("[")[0]


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
        # A least score is the most of a metric where lower is better.
        above = verdict.limit.startswith("max_") or verdict.observed > verdict.allowed
        sign = ">" if above else "<" if verdict.observed < verdict.allowed else "<="
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
    if name in OWN_SCORES:
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
    explained = [verdict for verdict in broken_first(record) if _kind(verdict) in _EXPLAINED]
    explained.sort(key=lambda verdict: _EXPLAINED.index(_kind(verdict)))
    # Two limits on speed have one meaning.
    yield from dict.fromkeys(text for verdict in explained for text in meaning(verdict, record))


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
    is_engine = accuracy is not None and accuracy.reference is not None and accuracy.candidate_runs is None
    if verdict.limit == "min_reference_accuracy" and is_engine:
        yield "FP32 itself scores so: look at labels, preprocessing and output= before the quantization"
    is_slow = _kind(verdict) in ("min_speedup", "max_latency_ms") and verdict.status is Status.FAIL
    if is_slow and latency is not None and latency.speedup and latency.speedup_ci:
        against = _SAID_OF.get(latency.reference_precision, latency.reference_precision)
        yield _speedup(latency.speedup, latency.speedup_ci, against)
    if verdict.limit == "min_coverage" and verdict.status is Status.FAIL and coverage is not None:
        yield from _in_float(coverage, record.precision)
    if verdict.limit == "max_size_mb" and record.resources is not None:
        size, of_reference = record.resources.size_mb or 0.0, record.resources.reference_size_mb
        larger = "the engine is larger than FP32: that" if of_reference and size > of_reference else "FP32"
        yield f"{larger} takes {figure(of_reference)} MB"


def _in_float(coverage: Coverage, precision: str | None) -> Iterator[str]:
    held = coverage.weights_pct or 0.0
    if held:
        share = f"{points(held)} % of the eligible {coverage.unit}: weights in {precision}, computed in float"
        yield f"{share}, as read back: the size is that of {precision}, the speed need not be"
    if round((coverage.pct or 0.0) + held, 6) < 100.0:
        hidden = "" if coverage.high_pct is None else " or cannot be seen into"
        ran = f"{'the rest' if coverage.pct or held else 'all'} of the eligible {coverage.unit} ran in float{hidden}"
        yield f"{ran}: speed and size are not those of {precision}"


def _drop(verdict: Verdict, accuracy: AccuracyResult) -> Iterator[str]:
    if accuracy.p_value is not None and accuracy.drop is not None and accuracy.drop > 0.0:
        if accuracy.p_value < _RARE:
            yield "the loss is real: chance alone would hardly give one like it"
        else:
            on_set = "" if accuracy.varies else "; the limit is judged on this set as it is"
            yield f"chance alone could give this loss{on_set}"
    span, allowed = accuracy.drop_ci, verdict.allowed
    if allowed is not None and lost_samples(accuracy) and allowed < 100.0 / accuracy.n and not accuracy.varies:
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
