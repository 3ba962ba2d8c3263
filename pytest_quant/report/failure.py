"""Why a check failed, on one screen, with the meaning of each broken figure."""

from __future__ import annotations

import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

from pytest_quant.printable import clean, guard_lines
from pytest_quant.record import Record
from pytest_quant.report.meaning import lost_samples, meanings
from pytest_quant.report.summary import name_of
from pytest_quant.report.text import NOT_MEASURED, count, figure, holds, in_unit, interval, points
from pytest_quant.result import AccuracyResult, Coverage, Hint, OutputError, Status, Verdict
from pytest_quant.spec import LIMITS
from pytest_quant.verdict.rules import apart, written

_MAX_LINES = 25
_WIDTH = 100
_LEAST_WIDTH = 40
_LABEL = 10
_MAX_OUTPUTS = 4


def failure(record: Record, width: int = _WIDTH) -> str:
    """Return which limit is broken, what was found and means, and what to try.

    At most 25 lines of `width` characters, and of 100, without escapes of a terminal, whatever the names contain. The
    first thing to try is written whole, in more lines if need be, since a part of it cannot be pasted.
    """
    width = max(_LEAST_WIDTH, min(width, _WIDTH))
    verdicts = record.verdicts or ()
    broken = sorted((v for v in verdicts if v.status is not Status.PASS), key=lambda v: list(Status).index(v.status))
    head = textwrap.wrap(f"{name_of(record)}: {_headline(record, broken)}", width)
    limits = [("limit", _limit(verdict)) for verdict in broken]
    hints = [("try", f"- {_hint(hint)}") for hint in record.hints]
    told = [
        *(("accuracy", text) for text in _accuracy(record)),
        *(("latency", text) for text in _latency(record)),
        *(("coverage", text) for text in _coverage(record)),
        *(("means", text) for text in meanings(record)),
    ]
    notes = [("note", text) for text in record.notes]
    lines = [*head, *_lines([*limits, *told, *hints, *notes], width)]
    if len(lines) <= _MAX_LINES:
        return guard_lines("\n".join(lines))
    advice = _lines(hints[:1], width)
    room = max(_MAX_LINES - 1 - len(advice), len(head) + 1)
    kept = [*head, *_lines([*limits, *told], width)][:room]
    kept += advice
    before = "try"
    for label, text in [*hints[1:], *notes]:
        more = _lines([(label, text)], width, before)
        if len(kept) + len(more) < _MAX_LINES:
            kept += more
            before = label
    return guard_lines("\n".join([*kept, "... --quant-json FILE writes all of it"]))


def _lines(blocks: list[tuple[str, str]], width: int, before: str = "") -> list[str]:
    """Return the lines of labelled texts; a label is written once, unless it is `before`, of the line above."""
    lines: list[str] = []
    for label, text in blocks:
        lines += _wrapped("" if label == before else label, text, width)
        before = label
    return lines


def _headline(record: Record, broken: list[Verdict]) -> str:
    if record.message:
        return f"{record.status.value}: {'; '.join(clean(line.strip()) for line in record.message.splitlines())}"
    if not broken:
        return record.status.value
    return "; ".join(_counted(record, broken))


def _counted(record: Record, broken: list[Verdict]) -> Iterator[str]:
    """Count the limits that the mark sets, and name the others, which nobody wrote."""
    failed = [verdict for verdict in broken if verdict.status is Status.FAIL]
    if not failed:
        yield record.status.value
    word, told = ("broken", failed) if failed else ("not judged", broken)
    own = [verdict for verdict in told if not verdict.implicit]
    if own:
        total = sum(not verdict.implicit for verdict in record.verdicts or ())
        yield f"{len(own)} of {count(total, 'limit')} {word}"
    for verdict in told:
        if verdict.implicit:
            yield f"outputs {word}" if verdict.limit == "outputs" else clean(f"the default of {verdict.limit} {word}")


def _wrapped(label: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        clean(text),
        width,
        initial_indent=f"  {label:<{_LABEL}}",
        subsequent_indent=" " * (_LABEL + 4),
        break_long_words=True,
    )


def headline(record: Record) -> str:
    """Return the first broken limit with both figures, ``max_drop 2.31 > 1.0 pp``; empty where none can be told so.

    It is for one line of a list; the number of further broken limits follows.
    """
    failed = [verdict for verdict in record.verdicts or () if verdict.status is Status.FAIL]
    told = [f"{clean(verdict.limit)} {_compared(verdict, record)}" for verdict in failed if verdict.limit != "outputs"]
    told += [f"outputs: {clean(verdict.reason)}" for verdict in failed if verdict.limit == "outputs"]
    if not told:
        return ""
    return told[0] + (f" (and {len(told) - 1} more)" if len(told) > 1 else "")


def _compared(verdict: Verdict, record: Record) -> str:
    if verdict.allowed is None or verdict.observed is None:
        return clean(verdict.reason)
    sign = ">" if verdict.limit.startswith("max_") else "<" if verdict.observed < verdict.allowed else "<="
    shown = apart(verdict.observed, verdict.allowed, 3)
    return f"{shown} {sign} {written(verdict.allowed)} {limit_unit(verdict.limit, record)}".rstrip()


def both_figures(verdict: Verdict, record: Record) -> tuple[str, str]:
    """Return what a limit allows and what was observed, each in its unit; ``-`` for what there is not."""
    unit, allowed, observed = limit_unit(verdict.limit, record), verdict.allowed, verdict.observed
    was = NOT_MEASURED if allowed is None else f"{written(allowed)} {unit}".rstrip()
    if observed is None:
        return was, NOT_MEASURED
    return was, f"{figure(observed) if allowed is None else apart(observed, allowed, 3)} {unit}".rstrip()


def limit_unit(limit: str, record: Record) -> str:
    """Return the unit of a limit, which some have by their row and some by the metric."""
    name = limit.partition("[")[0]
    unit = (record.accuracy.unit if record.accuracy else None) or ""
    if name in ("max_drop", "max_drop_increase"):
        return "pp" if unit == "%" else clean(unit)
    if name == "min_accuracy":
        return clean(unit)
    return LIMITS[name].unit if name in LIMITS else ""


def _limit(verdict: Verdict) -> str:
    """Return the limit with both figures, once each: the reason has them where the figures decided."""
    status = "" if verdict.status is Status.FAIL else f"{verdict.status.value}: "
    allowed = "" if verdict.allowed is None else written(verdict.allowed)
    told = [f"observed {figure(verdict.observed, 6)}"] if verdict.observed is not None else []
    told += [f"allowed {allowed}"] if allowed else []
    said = re.search(rf"(?<![\d.]){re.escape(allowed)}(?!\.?\d)", verdict.reason) if allowed else None
    figures = "" if said or not told or verdict.limit == "outputs" else f"{', '.join(told)}: "
    return f"{verdict.limit}: {status}{figures}{verdict.reason}"


def _said(record: Record) -> dict[str, str]:
    """Return what the lines of limits that are not passed say, by the limit's name; no other line says it again."""
    said: dict[str, str] = {}
    for verdict in record.verdicts or ():
        if verdict.status is not Status.PASS:
            name = verdict.limit.partition("[")[0]
            said[name] = f"{said.get(name, '')} {_limit(verdict)}"
    return said


def _accuracy(record: Record) -> Iterator[str]:
    found = record.accuracy
    if found is None:
        return
    said = _said(record)
    if found.metric is not None:
        yield _scores(found, said)
    if found.p_value is not None:
        right = "" if found.discordant is None else f", {count(found.discordant, 'sample')} right in only one engine"
        yield f"McNemar p = {figure(found.p_value, 2)}{right}"
    figures = ", ".join(_tensor_figures(found, said))
    if figures:
        yield figures
    if len(found.by_output) > 1:
        yield "; ".join(_by_output(found, said))
    if found.worst_class is not None:
        worst = found.worst_class
        scores = f"{points(worst.reference)} -> {points(worst.candidate)} %"
        yield f"worst class {worst.label}: {scores} of {count(worst.n, 'sample')}"


def _scores(found: AccuracyResult, said: Mapping[str, str]) -> str:
    unit = "" if not found.unit else f" {found.unit}"
    drop_unit = " pp" if found.unit == "%" else unit
    span, of_drop = found.drop_ci, said.get("max_drop", "")
    lost = lost_samples(found)
    candidate = f"{in_unit(found.candidate, found.unit)}{unit}"
    if holds(said.get("min_accuracy", ""), found.reference):
        scores = f"{found.metric} of the candidate {candidate}"
    else:
        scores = f"{found.metric} {in_unit(found.reference, found.unit)} -> {candidate}"
    told = [scores if lost else f"{scores} on {count(found.n, 'sample')}"]
    told[0] += " (float simulation)" if found.simulated else ""
    if not holds(of_drop, found.drop):
        told.append(f"drop {in_unit(found.drop, found.unit)}{drop_unit}")
    if lost:
        told.append(lost)
    if span is not None and not holds(of_drop, span.low, span.high):
        told.append(f"{found.confidence:.0%} interval of the drop {interval(span, found.unit)}")
    return ", ".join(told)


def _tensor_figures(found: AccuracyResult, said: Mapping[str, str]) -> Iterator[str]:
    each = _worst_outputs(found) if len(found.by_output) > 1 else []
    if found.agreement_pct is not None and not holds(said.get("min_agreement", ""), found.agreement_pct):
        yield f"agreement {points(found.agreement_pct)} %"
    if found.identical:
        yield "outputs identical"
    elif found.sqnr_db is not None and found.sqnr_db not in [one.sqnr_db for one in each]:
        yield from _sqnr(found.sqnr_db, said)
    if found.cosine is not None and not holds(said.get("min_cosine", ""), found.cosine):
        yield f"cosine {figure(found.cosine, 6)}"
    if found.max_abs_error is not None and found.max_abs_error not in [one.max_abs_error for one in each]:
        yield _largest_error(found.max_abs_error, found.max_abs_error_sample, said)


def _sqnr(sqnr_db: float | None, said: Mapping[str, str]) -> Iterator[str]:
    if not holds(said.get("min_sqnr_db", ""), sqnr_db):
        yield f"SQNR {figure(sqnr_db)} dB"


def _largest_error(error: float, sample: int | None, said: Mapping[str, str]) -> str:
    shown = "" if holds(said.get("max_abs_error", ""), error) else f" {figure(error)}"
    return f"largest error{shown}" + ("" if sample is None else f" at sample {sample}")


def _worst_outputs(found: AccuracyResult) -> list[OutputError]:
    """Return the outputs that have room, those with the lowest SQNR first."""
    return sorted(found.by_output, key=_sqnr_db)[:_MAX_OUTPUTS]


def _by_output(found: AccuracyResult, said: Mapping[str, str]) -> Iterator[str]:
    """Yield the worst outputs; what the error is in each, since their scales differ."""
    for one in _worst_outputs(found):
        if one.identical or one.max_abs_error is None:
            yield f"output {one.name}: {'identical' if one.identical else 'differs'}"
        else:
            error = _largest_error(one.max_abs_error, one.sample, said)
            yield f"output {one.name}: {', '.join([*_sqnr(one.sqnr_db, said), error])}"
    if len(found.by_output) > _MAX_OUTPUTS:
        yield f"and {count(len(found.by_output) - _MAX_OUTPUTS, 'output')} more"


def _sqnr_db(found: OutputError) -> float:
    if found.sqnr_db is None:
        return math.inf if found.identical else -math.inf
    return found.sqnr_db


def _latency(record: Record) -> Iterator[str]:
    found = record.latency
    if found is None:
        if record.latency_off:
            yield f"not measured: {record.latency_off}"
        return
    medians = f"p50 {figure(found.reference_p50_ms)} -> {figure(found.candidate_p50_ms)} ms"
    of_speedup, span = _said(record).get("min_speedup", ""), found.speedup_ci
    speedup = "" if holds(of_speedup, found.speedup) else f" x{figure(found.speedup)}"
    around = "" if span is None or holds(of_speedup, span.low, span.high) else f" {interval(span)}"
    told = f", speedup{speedup}{around}" if speedup or around else ""
    yield f"{medians}{told} over {found.rounds} rounds, batches of {found.batch_size}"
    if found.launches:
        each = ", ".join(f"x{figure(one)}" for one in (found.speedup, *(launch.speedup for launch in found.launches)))
        yield f"speedup of {1 + len(found.launches)} launches: {each}"
    if found.compared_with:
        yield f"latency reference: {found.compared_with}"
    if found.widened:
        yield found.widened
    yield from found.notes


def _coverage(record: Record) -> Iterator[str]:
    found = record.coverage
    if found is None:
        return
    said = _said(record).get("min_coverage", "")
    rows = ", ".join(islice(_by_operator(found), 6)) or "none"
    bounds = "" if found.high_pct is None else f" to {points(found.high_pct)}"
    if holds(said, found.pct, found.most_pct):
        yield f"{record.precision} nodes on {found.provider}: {rows}"
    else:
        yield f"{points(found.pct)}{bounds} % of {found.unit} in {record.precision} on {found.provider} (nodes: {rows})"
    if found.not_quantizable and not holds(said, *found.not_quantizable.values()):
        left = ", ".join(f"{name} ({points(share)} %)" for name, share in found.not_quantizable.items())
        share = "nothing here is" if found.scheme_pct is None else f"{points(found.scheme_pct)} % of"
        yield f"{share} what {record.scheme} can quantize; it cannot quantize {left}"
    yield from found.notes
    if said:
        if found.float_nodes:
            yield f"in float ran {', '.join(found.float_nodes)}"
        if found.opaque_nodes:
            opaque = f"{count(found.opaque_nodes, 'node')} cannot be seen into"
            yield f"{opaque}: float in the lower figure, {record.precision} in the upper" if bounds else opaque


def _by_operator(found: Coverage) -> Iterator[str]:
    """Yield quantized and all nodes by the operators of the user's model, which is what a mark can name."""
    quantized: Counter[str] = Counter()
    nodes: Counter[str] = Counter()
    for op in found.by_op:
        name = op.stands_for or op.op_type
        quantized[name] += op.quantized_nodes
        nodes[name] += op.nodes
    return (f"{name} {quantized[name]}/{nodes[name]}" for name in nodes)


def _hint(hint: Hint) -> str:
    return f"{hint.paste}: {hint.text}" if hint.paste else hint.text
