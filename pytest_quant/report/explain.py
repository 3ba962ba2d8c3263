"""Why a check failed, on one screen."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from pytest_quant.record import Record
from pytest_quant.report.closing import name_of
from pytest_quant.report.meaning import meanings
from pytest_quant.report.text import clean, count, figure, in_unit, interval, points
from pytest_quant.result import AccuracyResult, Coverage, Hint, OutputError, Status, Verdict

_MAX_LINES = 25
_WIDTH = 100
_LABEL = 10
_MAX_OUTPUTS = 4


def failure(record: Record) -> str:
    """Return which limit is broken, what was found and means, and what to try.

    At most 25 lines of 100 characters, without escapes of a terminal, whatever the names contain.
    """
    verdicts = record.verdicts or ()
    broken = sorted((v for v in verdicts if v.status is not Status.PASS), key=lambda v: list(Status).index(v.status))
    lines = textwrap.wrap(f"{name_of(record)}: {_headline(record, broken)}", _WIDTH)
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
        lines += _wrapped("" if label == before else label, text)
        before = label
    if len(lines) > _MAX_LINES:
        lines = [*lines[: _MAX_LINES - 1], "... --quant-json FILE writes all of it"]
    return "\n".join(lines)


def _headline(record: Record, broken: list[Verdict]) -> str:
    if record.message:
        return f"{record.status.value}: {'; '.join(clean(line.strip()) for line in record.message.splitlines())}"
    if not broken:
        return record.status.value
    number = sum(verdict.status is Status.FAIL for verdict in broken)
    total = count(len(record.verdicts or ()), "limit")
    if number == 0:
        return f"{record.status.value}, {len(broken)} of {total} could not be judged"
    return f"{number} of {total} broken"


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        clean(text),
        _WIDTH,
        initial_indent=f"  {label:<{_LABEL}}",
        subsequent_indent=" " * (_LABEL + 4),
        break_long_words=True,
    )


def _limit(verdict: Verdict) -> str:
    figures = f"allowed {figure(verdict.allowed, 6)}, observed {figure(verdict.observed, 6)}"
    return f"{verdict.limit}: {figures}: {verdict.status.value}, {verdict.reason}"


def _accuracy(record: Record) -> Iterator[str]:
    found = record.accuracy
    if found is None:
        return
    if found.metric is not None:
        yield _scores(found)
    if found.p_value is not None:
        differ = (
            "" if found.discordant is None else f", {found.discordant} samples right in only one of the two engines"
        )
        yield f"McNemar p = {figure(found.p_value, 2)}{differ}"
    yield ", ".join(_tensor_figures(found))
    if len(found.by_output) > 1:
        yield "; ".join(_by_output(found))
    if found.worst_class is not None:
        worst = found.worst_class
        scores = f"{points(worst.reference)} -> {points(worst.candidate)} %"
        yield f"worst class {worst.label}: {scores} of {count(worst.n, 'sample')}"


def _scores(found: AccuracyResult) -> str:
    unit = "" if not found.unit else f" {found.unit}"
    drop_unit = " pp" if found.unit == "%" else unit
    span = interval(found.drop_ci, found.unit)
    told = f"drop {in_unit(found.drop, found.unit)}{drop_unit}"
    if span:
        told += f", {found.confidence:.0%} interval {span}"
    scores = f"{in_unit(found.reference, found.unit)} -> {in_unit(found.candidate, found.unit)}{unit}"
    simulated = " (float simulation)" if found.simulated else ""
    return f"{found.metric} {scores} on {count(found.n, 'sample')}{simulated}, {told}"


def _tensor_figures(found: AccuracyResult) -> Iterator[str]:
    if found.agreement_pct is not None:
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
    speedup = f"speedup x{figure(found.speedup)} {interval(found.speedup_ci)}".rstrip()
    yield f"{medians}, {speedup} over {found.rounds} rounds, batches of {found.batch_size}"
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
