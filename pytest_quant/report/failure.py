"""Why a check failed, on one screen, with the meaning of each broken figure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping
from operator import itemgetter
from typing import TypeAlias

from pytest_quant.printable import clean, guard_lines
from pytest_quant.record import Record
from pytest_quant.report.details import DetailSection, details, lost_samples
from pytest_quant.report.text import NOT_MEASURED, count, figure, points, shown_unit
from pytest_quant.result import AccuracyResult, Status, Verdict
from pytest_quant.spec import LIMITS, QUANTIZED_PRECISIONS, limits_on
from pytest_quant.verdict.accuracy_limits import reference_falls_short
from pytest_quant.verdict.processors import CPUS
from pytest_quant.verdict.rules import format_apart

_MAX_LINES = 24
_MOST_OF_ONE = 10
"""Lines of one text, but for advice: a part of that cannot be pasted."""

_WIDTH = 100
_LABEL = 10
_SECTIONS: Mapping[str, Collection[str]] = {
    "Accuracy": ("outputs", *limits_on("score", "reference", "accuracy", "output")),
    "Latency": limits_on("latency"),
    "Coverage": limits_on("coverage"),
    "CPUs": (CPUS,),
}
"""Each section with the limits that it is about; where none of them is broken its first line is enough."""

_EXPLAINED = frozenset(("outputs", *limits_on("score", "accuracy", "output")))
"""Limits whose figure follows from the outputs of the candidate."""

_RARE = 0.05
_SAID_OF = {"fp32": "FP32", "tf32": "FP32 with TF32"}
"""What the reference of the latency is called in a sentence, where not by its precision."""


_Item: TypeAlias = tuple[str, str, int]
"""A label, a text and a rank; of what has no room, items of the largest rank are left out first, those of 0 never."""


def failure(record: Record, width: int = _WIDTH, verbosity: int = 0) -> str:
    """Return which limit is broken, why, what changed since it held, what was measured and means, and what to try.

    At most 24 lines of `width` characters, and of 160, without escapes of a terminal, whatever the names contain. What
    has no room is left out as a whole, the first thing to try never, in more lines if need be.

    Parameters
    ----------
    verbosity : pytest's; from 1 on, further figures of the broken limits are told too, p values for example.
    """
    width = max(40, min(width, 160))
    broken = broken_first(record)
    summary = clean(f"{record.model} {record.engine_id}: {_summary(record, broken)}")
    head = textwrap.wrap(summary, width, max_lines=_MOST_OF_ONE, placeholder=" ...")
    items = [("limit", _limit(verdict), min(place, 1)) for place, verdict in enumerate(broken)]
    # Right below the limit: a cause before its cures.
    if record.cause is not None:
        items.append((f"cause: {record.cause.stage}, ", record.cause.text, 1))
        items.append(("without it: ", record.cause.without, 1))
    items += [("changed", record.changed, 1)] if record.changed else []
    items += [("means", text, 2) for text in meanings(record)]
    items += [item for section in details(record) for item in _figures(section, broken, verbosity)]
    advice = (f"- {hint.paste}: {hint.text}" if hint.paste else f"- {hint.text}" for hint in record.hints)
    items += [("try", text, 4 * min(place, 1)) for place, text in enumerate(advice)]
    items += [("note", text, 5) for text in record.notes]
    end: list[str] = []
    while len(head) + len(_lines(items, width)) + len(end) > _MAX_LINES:
        least = max(reversed(items), key=itemgetter(2))
        if not least[2]:
            break
        items.remove(least)
        end = ["... --quant-json=FILE writes all of it"]
    return guard_lines("\n".join([*head, *_lines(items, width), *end]))


def broken_first(record: Record) -> list[Verdict]:
    """Return the verdicts that are not passed, the worst first."""
    order = list(Status)
    open_ones = (verdict for verdict in record.verdicts or () if verdict.status is not Status.PASS)
    return sorted(open_ones, key=lambda verdict: order.index(verdict.status))


def _figures(section: DetailSection, broken: list[Verdict], verbosity: int) -> Iterator[_Item]:
    """Yield a text for each group of figures, then the sentences; the first alone if no broken limit needs more.

    Of a coverage that is too low, all figures are told; of what is in no failure, none.
    """
    if section.title in _SECTIONS:
        concerned = any(_kind(verdict) in _SECTIONS[section.title] for verdict in broken)
        further = section.further if concerned and (verbosity > 0 or section.title == "Coverage") else ()
        groups = filter(None, (*section.groups, further))
        texts = [*("; ".join(f"{label} {text}" for label, text in group) for group in groups), *section.lines]
        for place, text in enumerate(texts if concerned else texts[:1]):
            yield (section.title.lower(), text, (1 + 2 * min(place, 1)) if concerned else 6)


def _kind(verdict: Verdict) -> str:
    """Return the limit without the output or the percentile that it names."""
    return verdict.limit.partition("[")[0]


def _lines(items: list[_Item], width: int) -> list[str]:
    """Return the lines of labelled texts; a label is written once, before its first text."""
    lines: list[str] = []
    before = ""
    for label, text, _ in items:
        first = f"  {'' if label == before else label:<{_LABEL}}"
        most = None if label == "try" else _MOST_OF_ONE
        rest = " " * (_LABEL + 4)
        lines += textwrap.wrap(
            clean(text), width, initial_indent=first, subsequent_indent=rest, max_lines=most, placeholder=" ..."
        )
        before = label
    return lines


def _summary(record: Record, broken: list[Verdict]) -> str:
    """Return why there is no check, or how many limits of the mark are broken, and the others, which nobody wrote."""
    if record.message:
        return f"{record.status.value}: {'; '.join(clean(line.strip()) for line in record.message.splitlines())}"
    failed = [verdict for verdict in broken if verdict.status is Status.FAIL]
    word, verdicts = ("broken", failed) if failed else ("not judged", broken)
    parts = [_plainly(failed[0], record.accuracy) if failed else record.status.value]
    own = [verdict for verdict in verdicts if not verdict.implicit]
    if own:
        total = sum(not verdict.implicit for verdict in record.verdicts or ())
        parts.append(f"{len(own)} of {count(total, 'limit')} {word}")
    defaults = [verdict.limit for verdict in verdicts if verdict.implicit]
    parts += [f"outputs {word}" if limit == "outputs" else f"the default of {limit} {word}" for limit in defaults]
    return clean("; ".join(filter(None, parts)))


def _plainly(verdict: Verdict, accuracy: AccuracyResult | None) -> str:
    """Return what a broken limit on right answers means in counts or shares; empty of other limits."""
    if accuracy is None or verdict.limit not in limits_on("score", "accuracy"):
        return ""
    if verdict.limit in limits_on("accuracy") and accuracy.agreement_pct is not None:
        return f"{points(100.0 - accuracy.agreement_pct)} % of the answers are not the reference's"
    scores = accuracy.candidate or 0.0, accuracy.reference or 0.0
    if not lost_samples(accuracy) or not 0.0 <= min(scores) <= max(scores) <= 100.0:
        return ""
    now, before = (round(accuracy.n * (1.0 - score / 100.0)) for score in scores)
    return f"{now} of {accuracy.n} samples are wrong now, {before} with the reference"


def explained(record: Record) -> Verdict | None:
    """Return the first broken limit on the outputs, which `Record.cause` is about."""
    return next(
        (each for each in broken_first(record) if each.status is Status.FAIL and _kind(each) in _EXPLAINED), None
    )


def headline(record: Record) -> str:
    """Return the first broken limit with both figures, ``max_drop 2.31 > 1.0 pp``; empty if no limit has both figures.

    It is for one line of a list; the number of further broken limits follows.
    """
    failed = [verdict for verdict in record.verdicts or () if verdict.status is Status.FAIL]
    if not failed:
        return ""
    # A fault of an output has no figures, and is named last.
    verdict = min(failed, key=lambda verdict: verdict.limit == "outputs")
    if verdict.limit == "outputs" or verdict.allowed is None or verdict.observed is None:
        colon = ":" if verdict.limit == "outputs" or verdict.allowed is None else ""
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
    row, allowed, observed = LIMITS.get(_kind(verdict)), verdict.allowed, verdict.observed
    # Some have a unit by their row and some by the metric.
    unit = shown_unit(row.scale or row.unit, record.accuracy) if row else ""
    was = NOT_MEASURED if allowed is None else f"{allowed!r} {unit}".rstrip()
    if observed is None:
        return was, NOT_MEASURED
    return was, f"{figure(observed) if allowed is None else format_apart(observed, allowed, 3)} {unit}".rstrip()


def _limit(verdict: Verdict) -> str:
    """Return the limit with its reason, and with both figures if the reason does not name what is allowed."""
    status = "" if verdict.status is Status.FAIL else f"{verdict.status.value}: "
    allowed = "" if verdict.allowed is None else repr(verdict.allowed)
    figures = [f"observed {figure(verdict.observed, 6)}"] if verdict.observed is not None else []
    figures += [f"allowed {allowed}"] if allowed else []
    said = verdict.limit == "outputs" or not figures or (allowed and allowed in verdict.reason)
    return f"{verdict.limit}: {status}{'' if said else ', '.join(figures) + ': '}{verdict.reason}"


def meanings(record: Record) -> Iterator[str]:
    """Yield what each broken limit means, the main sentence first; nothing if a verdict's reason says it all."""
    broken, order = broken_first(record), [*_MEANINGS]
    explained = sorted((each for each in broken if _kind(each) in order), key=lambda each: order.index(_kind(each)))
    # Two limits on speed have one meaning.
    yield from dict.fromkeys(text for verdict in explained for text in meaning(verdict, record))


def meaning(verdict: Verdict, record: Record) -> Iterator[str]:
    """Yield what it means that one limit is not passed, see `meanings`."""
    explain = _MEANINGS.get(_kind(verdict))
    if explain is not None:
        yield from explain(verdict, record)


def _outputs(_: Verdict, record: Record) -> Iterator[str]:
    kinds = {fault.kind for fault in record.accuracy.faults} if record.accuracy else set()
    if kinds - {"constant"}:
        yield "an output cannot be compared at all, so no other figure of accuracy can be relied on"
    if "constant" in kinds:
        yield "an output is the same whatever the input, and no longer says what the reference's does"


def _reference(verdict: Verdict, record: Record) -> Iterator[str]:
    accuracy = record.accuracy
    if accuracy is not None and accuracy.reference is not None and accuracy.candidate_runs is None:
        if reference_falls_short(verdict, accuracy):
            yield "FP32 breaks min_accuracy too: look at labels, preprocessing and output= first, or at the limit"
        elif verdict.limit == "min_reference_accuracy":
            yield "FP32 itself scores so: look at labels, preprocessing and output= before the quantization"


def _speed(verdict: Verdict, record: Record) -> Iterator[str]:
    """Say which engine is faster, as far as the interval of the speedup shows it."""
    latency = record.latency
    if verdict.status is not Status.FAIL or latency is None or not latency.speedup or not latency.speedup_ci:
        return
    against = _SAID_OF.get(latency.reference_precision, latency.reference_precision)
    if latency.speedup_ci.high < 1.0:
        yield f"the candidate is {figure(1.0 / latency.speedup, 3)} times slower than {against}"
    elif latency.speedup_ci.low > 1.0:
        yield f"the candidate is faster than {against}, and that is not enough"
    else:
        yield f"no difference from {against} in speed was seen"


def _size(_: Verdict, record: Record) -> Iterator[str]:
    if record.resources is not None:
        size, of_reference = record.resources.size_mb or 0.0, record.resources.reference_size_mb
        larger = "the engine is larger than FP32: that" if of_reference and size > of_reference else "FP32"
        yield f"{larger} takes {figure(of_reference)} MB"


def _explain_float(verdict: Verdict, record: Record) -> Iterator[str]:
    coverage, precision = record.coverage, record.precision
    if verdict.status is not Status.FAIL or coverage is None:
        return
    held = coverage.weights_pct or 0.0
    if held:
        share = f"{points(held)} % of the eligible {coverage.unit}: weights in {precision}, computed in float"
        yield f"{share}, as read back: the size is that of {precision}, the speed need not be"
    in_int8 = coverage.int8_pct or 0.0
    if in_int8:
        yield f"{points(in_int8)} % of the eligible {coverage.unit} ran in int8: precision='int8' judges it as that"
    done = (coverage.pct or 0.0) + held + in_int8
    if round(done, 6) < 100.0:
        hidden = "" if coverage.high_pct is None else " or cannot be seen into"
        ran = f"{'the rest' if done else 'all'} of the eligible {coverage.unit} ran in float{hidden}"
        # Floats of sixteen bits halve the file, whatever a runtime computes them in.
        lacks = "has neither the speed nor the size" if precision in QUANTIZED_PRECISIONS else "does not have the speed"
        yield f"{ran}: the engine {lacks} of {precision}"


def _drop(verdict: Verdict, record: Record) -> Iterator[str]:
    accuracy, is_fail = record.accuracy, verdict.status is Status.FAIL
    if accuracy is None or accuracy.drop is None or verdict.limit != _kind(verdict):
        return
    span, allowed = accuracy.drop_ci, verdict.allowed
    is_beyond = is_fail and span is not None and allowed is not None and span.low > allowed
    # The p of several tasks is that of all samples together, and the limit is on one of them.
    if accuracy.p_value is not None and accuracy.drop > 0.0 and not accuracy.by_task:
        if accuracy.p_value < _RARE:
            yield "the loss is real: chance alone would hardly give one like it"
        elif not is_beyond:
            on_set = "" if accuracy.varies or not is_fail else "; the limit is judged on this set as it is"
            yield f"chance alone could give this loss{on_set}"
    if span is not None and allowed is not None and span.low <= allowed < span.high:
        # The reason of a limit that is not judged says it.
        need = f"; about {accuracy.n_to_resolve} samples would decide" if accuracy.n_to_resolve and is_fail else ""
        yield f"other samples of the same kind could land on the other side of the limit{need}"


_MEANINGS: Mapping[str, Callable[[Verdict, Record], Iterator[str]]] = {
    "outputs": _outputs,
    "max_drop": _drop,
    "min_accuracy": _reference,
    "min_reference_accuracy": _reference,
    "min_speedup": _speed,
    "max_latency_ms": _speed,
    "min_coverage": _explain_float,
    "max_size_mb": _size,
}
"""What says what a broken limit means; the first of several comes first."""
