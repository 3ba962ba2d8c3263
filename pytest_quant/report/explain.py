"""Why a check failed, on one screen."""

from __future__ import annotations

import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from pytest_quant.record import Record
from pytest_quant.report.closing import name_of
from pytest_quant.report.meaning import lost_samples, meanings
from pytest_quant.report.text import clean, count, figure, in_unit, interval, points
from pytest_quant.result import AccuracyResult, Coverage, Hint, OutputError, Status, Verdict
from pytest_quant.verdict.rules import apart, written

_MAX_LINES = 25
_WIDTH = 100
_LEAST_WIDTH = 40
_LABEL = 10
_MAX_OUTPUTS = 4
_UNITS = {"min_agreement": "%", "min_coverage": "%", "max_slowdown": "%", "min_speedup": "x"}
_BY_SUFFIX = {"db": "dB", "ms": "ms", "mb": "MB", "s": "s", "mj": "mJ"}
"""Units by limit, and by the end of a limit's name."""


def failure(record: Record, width: int = _WIDTH) -> str:
    """Return which limit is broken, what was found and means, and what to try.

    At most 25 lines of `width` characters, and of 100, without escapes of a terminal, whatever the names contain.
    """
    width = max(_LEAST_WIDTH, min(width, _WIDTH))
    verdicts = record.verdicts or ()
    broken = sorted((v for v in verdicts if v.status is not Status.PASS), key=lambda v: list(Status).index(v.status))
    lines = textwrap.wrap(f"{name_of(record)}: {_headline(record, broken)}", width)
    blocks = [
        *(("limit", _limit(verdict)) for verdict in broken),
        *(("accuracy", text) for text in _accuracy(record)),
        *(("latency", text) for text in _latency(record)),
        *(("coverage", text) for text in _coverage(record)),
        *(("means", text) for text in meanings(record)),
        *(("try", f"- {_hint(hint)}") for hint in record.hints),
        *(("note", text) for text in record.notes),
    ]
    before = ""
    for label, text in blocks:
        lines += _wrapped("" if label == before else label, text, width)
        before = label
    if len(lines) > _MAX_LINES:
        lines = [*lines[: _MAX_LINES - 1], "... --quant-json FILE writes all of it"]
    return "\n".join(lines)


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
            yield "outputs broken" if verdict.limit == "outputs" else clean(f"the default of {verdict.limit} {word}")


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
    return f"{shown} {sign} {written(verdict.allowed)} {_unit(verdict.limit, record)}".rstrip()


def _unit(limit: str, record: Record) -> str:
    """Return the unit of a limit, which some have by their name and some by the metric."""
    name = limit.partition("[")[0]
    unit = (record.accuracy.unit if record.accuracy else None) or ""
    if name in ("max_drop", "max_drop_increase"):
        return "pp" if unit == "%" else clean(unit)
    if name == "min_accuracy":
        return clean(unit)
    return _UNITS.get(name, _BY_SUFFIX.get(name.rpartition("_")[2], ""))


def _limit(verdict: Verdict) -> str:
    """Return the limit with both figures, once each: the reason has them where the figures decided."""
    status = "" if verdict.status is Status.FAIL else f"{verdict.status.value}: "
    allowed = "" if verdict.allowed is None else written(verdict.allowed)
    told = [f"observed {figure(verdict.observed, 6)}"] if verdict.observed is not None else []
    told += [f"allowed {allowed}"] if allowed else []
    said = re.search(rf"(?<![\d.]){re.escape(allowed)}(?!\.?\d)", verdict.reason) if allowed else None
    figures = "" if said or not told or verdict.limit == "outputs" else f"{', '.join(told)}: "
    return f"{verdict.limit}: {status}{figures}{verdict.reason}"


def _accuracy(record: Record) -> Iterator[str]:
    found = record.accuracy
    if found is None:
        return
    if found.metric is not None:
        yield _scores(found, _judged(record))
    if found.p_value is not None:
        differ = (
            "" if found.discordant is None else f", {found.discordant} samples right in only one of the two engines"
        )
        yield f"McNemar p = {figure(found.p_value, 2)}{differ}"
    figures = ", ".join(_tensor_figures(found, _judged(record)))
    if figures:
        yield figures
    if len(found.by_output) > 1:
        yield "; ".join(_by_output(found))
    if found.worst_class is not None:
        worst = found.worst_class
        scores = f"{points(worst.reference)} -> {points(worst.candidate)} %"
        yield f"worst class {worst.label}: {scores} of {count(worst.n, 'sample')}"


def _judged(record: Record) -> set[str]:
    """Return the limits that are not passed and whose figure their own line has."""
    return {v.limit for v in record.verdicts or () if v.status is not Status.PASS and v.observed is not None}


def _scores(found: AccuracyResult, judged: set[str]) -> str:
    unit = "" if not found.unit else f" {found.unit}"
    drop_unit = " pp" if found.unit == "%" else unit
    span = interval(found.drop_ci, found.unit)
    told = [] if "max_drop" in judged else [f"drop {in_unit(found.drop, found.unit)}{drop_unit}"]
    told += [lost] if (lost := lost_samples(found)) else []
    if span:
        told.append(f"{found.confidence:.0%} interval of the drop {span}")
    scores = f"{in_unit(found.reference, found.unit)} -> {in_unit(found.candidate, found.unit)}{unit}"
    simulated = " (float simulation)" if found.simulated else ""
    return ", ".join([f"{found.metric} {scores} on {count(found.n, 'sample')}{simulated}", *told])


def _tensor_figures(found: AccuracyResult, judged: set[str]) -> Iterator[str]:
    if found.agreement_pct is not None and "min_agreement" not in judged:
        yield f"agreement {points(found.agreement_pct)} %"
    if found.identical:
        yield "outputs identical"
    elif found.sqnr_db is not None:
        yield f"SQNR {figure(found.sqnr_db)} dB"
    if found.cosine is not None:
        yield f"cosine {figure(found.cosine, 6)}"
    if found.max_abs_error is not None:
        yield f"largest error {figure(found.max_abs_error)} at sample {found.max_abs_error_sample}"


def _by_output(found: AccuracyResult) -> Iterator[str]:
    """Yield the outputs with the lowest SQNR first; what the error is in each, since their scales differ."""
    shown = sorted(found.by_output, key=_sqnr_db)
    for one in shown[:_MAX_OUTPUTS]:
        if one.identical or one.max_abs_error is None:
            yield f"output {one.name}: {'identical' if one.identical else 'differs'}"
        else:
            yield f"output {one.name}: SQNR {figure(one.sqnr_db)} dB, largest error {figure(one.max_abs_error)}"
    if len(shown) > _MAX_OUTPUTS:
        yield f"and {count(len(shown) - _MAX_OUTPUTS, 'output')} more"


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
    speedup = f", speedup x{figure(found.speedup)} {interval(found.speedup_ci)}".rstrip()
    told = "" if "min_speedup" in _judged(record) else speedup
    yield f"{medians}{told} over {found.rounds} rounds, batches of {found.batch_size}"
    yield from found.notes


def _coverage(record: Record) -> Iterator[str]:
    found = record.coverage
    if found is None:
        return
    rows = ", ".join(islice(_by_operator(found), 6))
    yield f"{points(found.pct)} % of {found.unit} in {record.precision} on {found.provider} (nodes: {rows or 'none'})"
    if found.not_quantizable:
        left = ", ".join(f"{name} ({points(share)} %)" for name, share in found.not_quantizable.items())
        share = "nothing here is" if found.scheme_pct is None else f"{points(found.scheme_pct)} % of"
        yield f"{share} what {record.scheme} can quantize; it cannot quantize {left}"
    yield from found.notes
    if any(verdict.limit == "min_coverage" and verdict.status is not Status.PASS for verdict in record.verdicts or ()):
        if found.float_nodes:
            yield f"in float ran {', '.join(found.float_nodes)}"
        if found.opaque_nodes:
            yield f"{count(found.opaque_nodes, 'fused node')} cannot be seen into, and counts as float"


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
