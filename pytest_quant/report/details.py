"""One view of a check, for the terminal, the page and a pull request: titled sections of labels and texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeAlias

from pytest_quant.record import Record
from pytest_quant.record.figures import FIGURES, SCORE, drop_unit
from pytest_quant.report.text import NOT_MEASURED, count, figure, format_in_unit, points, shown_unit
from pytest_quant.result import AccuracyResult, Coverage, Interval, OutputError, Portability, TaskScore

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""Labels with their texts."""

Form: TypeAlias = Callable[[float | None], str]
"""Writes a number; ``-`` for one that was not measured."""

_SIZES = "Size, memory, build"
_MOST_ROWS = 12
_MOST_OUTPUTS = 4


@dataclass(frozen=True, slots=True)
class DetailTable:
    """A small table: its most important rows, and how many more there are."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class DetailSection:
    """One part of what a check has to show.

    Attributes
    ----------
    title : its heading.
    groups : the main figures; those of a group share a line where lines are scarce.
    further : the other figures, for a view with room.
    lines : sentences.
    tables : for a view with room.
    """

    title: str
    groups: tuple[Pairs, ...] = ()
    further: Pairs = ()
    lines: tuple[str, ...] = ()
    tables: tuple[DetailTable, ...] = ()

    @property
    def facts(self) -> Pairs:
        """All figures, the main ones first."""
        return (*chain.from_iterable(self.groups), *self.further)


def details(record: Record) -> tuple[DetailSection, ...]:
    """Return what was measured, by kind; sections without anything are left out."""
    device = "" if record.resources is None else record.resources.device
    sections = (
        _omitted_section("Accuracy", record.accuracy_off)
        if record.accuracy is None
        else _accuracy(record, record.accuracy),
        _latency(record),
        DetailSection("Coverage") if record.coverage is None else _coverage(record, record.coverage),
        DetailSection("CPUs") if record.portability is None else _processors(record, record.portability),
        DetailSection(_SIZES, further=(*_further_figures(record, "resources"), *drop_empty(("device", device)))),
    )
    return tuple(section for section in sections if section.facts or section.lines or section.tables)


def drop_empty(*pairs: tuple[str, str]) -> Pairs:
    """Return the pairs whose text says something."""
    return tuple(pair for pair in pairs if pair[1] not in ("", NOT_MEASURED))


def format_measured(value: float | None, unit: str, span: Interval | None = None, form: Form = figure) -> str:
    """Return a figure with its interval and its unit; empty if it was not measured.

    Parameters
    ----------
    unit : what stands behind the figure, but an x before it.
    span : interval of the figure.
    form : writes the figure and the ends of its interval.
    """
    if value is None:
        return ""
    text = f"{form(value)} {_format_interval(span, form)}".rstrip()
    return f"x{text}" if unit == "x" else f"{text} {unit}".rstrip()


def format_change(before: float | None, after: float | None, unit: str = "", form: Form = figure) -> str:
    """Return ``before -> after unit``; empty if neither was measured."""
    return "" if before is None and after is None else f"{form(before)} -> {form(after)} {unit}".rstrip()


def format_whole(value: float | None) -> str:
    """Return a whole number without an exponent."""
    return NOT_MEASURED if value is None else f"{value:.0f}"


def _format_interval(span: Interval | None, form: Form = figure) -> str:
    return "" if span is None else f"[{form(span.low)}, {form(span.high)}]"


def first_rows(caption: str, heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> tuple[DetailTable, ...]:
    """Return a table of the first rows; none without rows."""
    left_out = max(0, len(rows) - _MOST_ROWS)
    return (DetailTable(caption, tuple(heads), tuple(rows[:_MOST_ROWS]), left_out),) if rows else ()


def _omitted_section(title: str, why: str) -> DetailSection:
    return DetailSection(title, lines=(f"not measured: {why}",) if why else ())


def _further_figures(record: Record, section: str) -> Pairs:
    """Return the figures of a section that have a label of their own."""
    pairs = []
    for each in FIGURES:
        of, _, name = each.place.partition(".")
        whole_section = getattr(record, of, None)
        if each.label and of == section and whole_section is not None:
            value, unit = getattr(whole_section, name), shown_unit(each.unit, record.accuracy)
            form = partial(format_in_unit, unit=unit) if each.unit == SCORE else partial(figure, digits=each.digits)
            text = format_measured(value, unit, getattr(whole_section, f"{name}_ci", None), form)
            pairs.append((each.label, format_whole(value) if isinstance(value, int) else text))
    return drop_empty(*pairs)


def _accuracy(record: Record, accuracy: AccuracyResult) -> DetailSection:
    unit = accuracy.unit or ""
    form = partial(format_in_unit, unit=unit)
    parts = {"label": accuracy.by_label, "group": accuracy.by_group, "output": accuracy.by_head}
    # Of classes that a limit judges as labels there are rows already.
    by_class = () if accuracy.by_label else accuracy.by_class
    worst_class = ""
    if by_class and (worst := accuracy.worst_class) is not None:
        scores = format_change(worst.reference, worst.candidate, "%", points)
        worst_class = f"{worst.label}: {scores} of {worst.n} samples"
    several = accuracy.by_output if len(accuracy.by_output) > 1 else ()
    worst_first = sorted(several, key=lambda error: (error.identical, error.sqnr_db is not None, error.sqnr_db or 0.0))
    groups = (
        drop_empty(
            (accuracy.metric or "score", format_change(accuracy.reference, accuracy.candidate, unit, form)),
            ("drop", format_measured(accuracy.drop, drop_unit(unit), accuracy.drop_ci, form)),
            ("lost", lost) if (lost := lost_samples(accuracy)) else ("samples", format_whole(accuracy.n)),
            ("candidate", "float simulation" if accuracy.simulated else ""),
        ),
        drop_empty(
            ("runs", format_change(accuracy.reference_runs, accuracy.candidate_runs, form=format_whole)),
            ("sd between runs", format_measured(accuracy.run_sd, drop_unit(unit), form=form)),
            ("right answers", accuracy.flips),
        ),
        drop_empty(
            ("agreement", format_measured(accuracy.agreement_pct, "%", form=points)),
            ("outputs", "identical" if accuracy.identical else ""),
            *_error_figures(accuracy, accuracy.max_abs_error_sample),
        ),
        tuple((f"output {error.name}", _describe_output(error)) for error in worst_first[:_MOST_OUTPUTS]),
        drop_empty(
            ("outputs not shown", format_whole(max(0, len(several) - _MOST_OUTPUTS) or None)),
            *((f"worst {what}s", _describe_worst(rows, unit)) for what, rows in parts.items()),
            ("worst class", worst_class),
        ),
    )
    confidence = f"{accuracy.confidence:.0%}" if accuracy.drop_ci is not None else ""
    further = drop_empty(("confidence of intervals", confidence), *_further_figures(record, "accuracy"))
    faults = [(fault.output, format_whole(fault.sample), fault.kind, fault.detail) for fault in accuracy.faults]
    classes = [
        (format_whole(score.label), format_whole(score.n), points(score.reference), points(score.candidate))
        for score in sorted(by_class, key=lambda score: score.candidate - score.reference)
    ]
    tables = (
        *first_rows("What cannot be compared", ("output", "sample", "fault", "where"), faults),
        *chain.from_iterable(
            _part_table(what, rows, unit) for what, rows in (("task", accuracy.by_task), *parts.items())
        ),
        *first_rows("By class", ("class", "samples", "reference %", "candidate %"), classes),
        *changed_answers(accuracy),
    )
    return DetailSection("Accuracy", groups, further, tables=tables)


def changed_answers(accuracy: AccuracyResult) -> tuple[DetailTable, ...]:
    """Return a table of samples whose class differs, the nearest to the reference's decision first."""
    caption, heads = "Answers that changed, the closest first", ("sample", "reference", "candidate", "margin")
    return first_rows(caption, heads, [(*map(str, row[:3]), figure(row.margin, 3)) for row in accuracy.changed])


def _part_table(what: str, rows: Sequence[TaskScore], unit: str) -> tuple[DetailTable, ...]:
    """Return a table of parts, the worst first; that of several together is the last of them."""
    texts = [
        (
            " ".join(filter(None, (row.name or _TOGETHER, row.metric, row.unit))),
            format_whole(row.n),
            format_change(row.reference, row.candidate, form=partial(format_in_unit, unit=row.unit or unit)),
            format_measured(row.drop, "", row.drop_ci, partial(format_in_unit, unit=row.unit or unit)),
            figure(row.p, 2),
        )
        for row in _worst_first(rows)
    ]
    return first_rows(f"By {what}", (what, "samples", f"score {unit}".strip(), "drop", "p"), texts)


_TOGETHER = "those left open, together"
_MOST_PARTS = 3


def _worst_first(rows: Sequence[TaskScore]) -> list[TaskScore]:
    return sorted(rows, key=lambda row: (row.drop is None, -(row.drop or 0.0)))


def _describe_worst(rows: Sequence[TaskScore], unit: str) -> str:
    """Return the parts that lost most, each with its scores, drop and samples; empty if none lost."""
    return "; ".join(
        f"{row.name}: {format_change(row.reference, row.candidate, row.unit or unit, form)}, drop "
        f"{format_measured(row.drop, drop_unit(row.unit or unit), row.drop_ci, form)} of {count(row.n, 'sample')}"
        for row in [row for row in _worst_first(rows) if row.name and (row.drop or 0.0) > 0.0][:_MOST_PARTS]
        for form in [partial(format_in_unit, unit=row.unit or unit)]
    )


def lost_samples(accuracy: AccuracyResult) -> str:
    """Return ``1 of 898 samples``, how many fewer the candidate gets right; empty if scores are not 0 or 1."""
    lost = accuracy.n * (accuracy.drop or 0.0) / 100.0
    if accuracy.discordant is None or accuracy.unit != "%" or not 0.0 < lost <= accuracy.n:
        return ""
    return f"{round(lost)} of {accuracy.n} samples"


def _error_figures(of: AccuracyResult | OutputError, sample: int | None) -> Pairs:
    """Return the figures of outputs that differ; `sample` has the largest error."""
    return drop_empty(
        ("SQNR", format_measured(of.sqnr_db, "dB")),
        ("cosine", figure(of.cosine, 6)),
        ("largest error", format_measured(of.max_abs_error, "" if sample is None else f"at sample {sample}")),
    )


def _describe_output(error: OutputError) -> str:
    if error.identical or error.max_abs_error is None:
        return "identical" if error.identical else "differs"
    return ", ".join(f"{label} {text}" for label, text in _error_figures(error, error.sample))


_TOKENS = {"ttft": "to the first token", "tpot": "per token"}


def _latency(record: Record) -> DetailSection:
    latency = record.latency
    if latency is None:
        return _omitted_section("Latency", record.latency_off)
    repeat, sample = latency.repeat, latency.sample
    of_launches = (latency.speedup, *(launch.speedup for launch in latency.launches)) if latency.launches else ()
    tokens = [
        (f"time {_TOKENS[token.name]}", format_change(token.reference_ms, token.candidate_ms, "ms"))
        for token in latency.tokens
    ]
    groups = (
        drop_empty(
            ("median", format_change(latency.reference_p50_ms, latency.candidate_p50_ms, "ms")),
            ("speedup", format_measured(latency.speedup, "x", latency.speedup_ci)),
            ("rounds", format_whole(latency.rounds)),
            ("batch", format_whole(latency.batch_size)),
        ),
        drop_empty(*tokens),
        drop_empty(("clock", f"the {latency.clock}'s" if latency.clock != "host" else "")),
        drop_empty(("speedup of each launch", ", ".join(f"x{figure(speedup)}" for speedup in of_launches))),
        drop_empty(("latency reference", latency.compared_with)),
        drop_empty(("timed sample", f"{sample.index}: {sample.inputs}" if sample and sample.shapes else "")),
    )
    further = drop_empty(
        *_further_figures(record, "latency"),
        ("null / reference", _format_interval(latency.null_ratio_ci)),
        ("times it was judged while measured", format_whole(latency.looks)),
        ("speedup, measured again", "" if repeat is None else format_measured(repeat.speedup, "x", repeat.speedup_ci)),
    )
    lines = (*(f"timing in doubt: {reason}" for reason in latency.reasons), latency.widened, *latency.notes)
    return DetailSection("Latency", groups, further, lines=tuple(filter(None, lines)))


def _coverage(record: Record, coverage: Coverage) -> DetailSection:
    shares = [f"{name} ({points(share)} %)" for name, share in coverage.not_quantizable.items()]
    is_bounded = coverage.high_pct is not None
    upper = f" to {points(coverage.high_pct)}" if is_bounded else ""
    bounds = f": float in the lower figure, {record.precision} in the upper" if is_bounded else ""
    # By the operators of the user's model, which is what a mark can name.
    quantized, nodes = Counter[str](), Counter[str]()
    for op in coverage.by_op:
        quantized[op.stands_for or op.op_type] += op.quantized_nodes
        nodes[op.stands_for or op.op_type] += op.nodes
    by_operator = [f"{name} {quantized[name]}/{nodes[name]}" for name in nodes]
    pct = "" if coverage.pct is None else f"{points(coverage.pct)}{upper} %"
    # The same figure again says nothing: what arrives quantized is no way to quantize.
    of_scheme = None if coverage.scheme_pct == coverage.pct else coverage.scheme_pct
    groups = (
        drop_empty(
            (f"{coverage.unit} in {record.precision}", pct),
            ("provider", coverage.provider),
            ("nodes", ", ".join(by_operator[:6])),
        ),
        drop_empty(
            (f"of what {record.scheme} can quantize", format_measured(of_scheme, "%", form=points)),
            (f"{record.scheme} cannot quantize", ", ".join(shares)),
        ),
    )
    further = drop_empty(
        (f"not in {record.precision}" if coverage.int8_pct else "ran in float", ", ".join(coverage.float_nodes)),
        ("nodes that cannot be seen into", f"{coverage.opaque_nodes}{bounds}" if coverage.opaque_nodes else ""),
        ("plan of another product", coverage.plan_of),
    )
    operators = [
        (
            f"{op.op_type} ({op.stands_for})" if op.stands_for else op.op_type,
            *map(format_whole, (op.nodes, op.quantized_nodes, op.macs, op.quantized_macs)),
        )
        for op in sorted(coverage.by_op, key=lambda op: -(op.macs or 0))
    ]
    tables = first_rows("By operator", ("operator", "nodes", "quantized", "MACs", "quantized"), operators)
    return DetailSection("Coverage", groups, further, coverage.notes, tables)


def _processors(record: Record, portability: Portability) -> DetailSection:
    known = {"any": "on any processor", "vnni": "only with VNNI, AMX or on ARM"}
    holds = known.get(portability.holds or "", "not known")
    how = f"{holds}, {portability.how}" if portability.how else holds
    why = drop_empty(("why", portability.reason), ("largest sums", portability.worst_layer))
    groups = drop_empty(("verdict holds", how), ("measured on", record.isa)), _further_figures(record, "portability")
    return DetailSection("CPUs", groups, why)
