"""The accuracy of one check: scores, classes, outputs, and the samples that were lost and won."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import HistoryError
from pytest_quant.history.compare.samples import answers_of
from pytest_quant.record import Record
from pytest_quant.report.page.blocks import facts, known, lines, measured, pointer, table, whole
from pytest_quant.report.page.content import Block, Figure, Lines, Pieces, Section, TableRow
from pytest_quant.report.text import figure, in_unit, points
from pytest_quant.result import AccuracyResult, ClassScore, OutputError

_MOST_SAMPLES = 12
_SEVERAL = 2

LOST, WON = "lost", "won"
"""Places of the samples that only the reference, and only the candidate, gets right; the record has both as bits."""


def accuracy_section(record: Record) -> Section:
    """Return the section about accuracy; without blocks where nothing was compared."""
    found = record.accuracy
    blocks: list[Block] = []
    if found is not None:
        blocks += lines(
            f"output {fault.output}, sample {fault.sample}: {fault.kind}: {fault.detail}" for fault in found.faults
        )
        blocks += _scores(found)
        blocks += _outputs_together(found)
        blocks += _samples(found, record.nodeid)
        blocks += _classes(found.by_class)
        blocks += _outputs(found.by_output)
    return Section("Accuracy", "accuracy", tuple(blocks))


def _scores(found: AccuracyResult) -> Iterator[Block]:
    form = _form_of(found.unit)
    unit = f" {found.unit}" if found.unit else ""
    drop_unit = "pp" if found.unit == "%" else found.unit or ""
    scores: Pieces = (
        known(found.reference, "reference", form),
        " -> ",
        known(found.candidate, "candidate", form),
        unit,
    )
    worst = found.worst_class
    worst_class: Pieces = ()
    if worst is not None:
        worst_class = (
            f"{worst.label}: ",
            known(worst.reference, "worst_class/reference", points),
            " -> ",
            known(worst.candidate, "worst_class/candidate", points),
            " % of ",
            known(worst.n, "worst_class/n", whole),
        )
    yield from facts(
        (found.metric or "score", (*scores, " (float simulation)") if found.simulated else scores),
        ("drop", measured(found.drop, "drop", drop_unit, found.drop_ci, form)),
        ("confidence of intervals", _share(found) if found.drop_ci is not None else ""),
        ("samples", known(found.n, "n", whole)),
        ("right in only one engine", known(found.discordant, "discordant", whole)),
        ("McNemar p", known(found.p_value, "p_value", lambda value: figure(value, 2))),
        ("samples that would tell", known(found.n_to_resolve, "n_to_resolve", whole)),
        ("what no look at the samples scores", measured(found.chance, "chance", found.unit or "", form=form)),
        ("worst class", worst_class),
        ("same top class", measured(found.agreement_pct, "agreement_pct", "%", form=points)),
    )


def _form_of(unit: str | None) -> Callable[[float | None], str]:
    return lambda value: in_unit(value, unit)


def _share(found: AccuracyResult) -> Pieces:
    return (Figure(f"{found.confidence:.0%}", found.confidence, "confidence"),)


def _outputs_together(found: AccuracyResult) -> Iterator[Block]:
    at = () if found.max_abs_error_sample is None else (" at sample ", _sample(found.max_abs_error_sample))
    largest = () if found.max_abs_error is None else (known(found.max_abs_error, "max_abs_error"), *at)
    yield from facts(
        ("outputs", "identical" if found.identical else ""),
        ("SQNR, the lowest", measured(found.sqnr_db, "sqnr_db", "dB")),
        ("cosine, the lowest", known(found.cosine, "cosine", lambda value: figure(value, 6))),
        ("largest error", largest),
        ("KL", measured(found.kl, "kl", "nats")),
    )


def _sample(index: int) -> Figure:
    return Figure(str(index), index, "max_abs_error_sample")


def _samples(found: AccuracyResult, nodeid: str) -> Iterator[Block]:
    """Yield which samples were lost and won, by their index in the evaluation set."""
    try:
        reference, candidate = answers_of(found, nodeid)
    except HistoryError as error:
        yield Lines((error.what,))
        return
    if reference is None or candidate is None:
        return
    yield from facts(
        ("samples lost", _indices(np.flatnonzero(reference & ~candidate), LOST)),
        ("samples won", _indices(np.flatnonzero(candidate & ~reference), WON)),
    )


def _indices(found: NDArray[Any], field: str) -> Pieces:
    if not found.size:
        return ("none",)
    shown = [
        Figure(str(index), index, f"{field}/{place}") for place, index in enumerate(found[:_MOST_SAMPLES].tolist())
    ]
    pieces: list[str | Figure] = [Figure(str(found.size), int(found.size), f"{field}/n"), ": "]
    for place, one in enumerate(shown):
        pieces += [", ", one] if place else [one]
    return (*pieces, ", ..." if found.size > len(shown) else "")


def _classes(found: Sequence[ClassScore]) -> Iterator[Block]:
    """Yield the classes, those that lost most first."""
    order = sorted(range(len(found)), key=lambda index: (found[index].candidate - found[index].reference, index))
    rows = [
        TableRow(
            str(index),
            (
                known(one.label, "0", whole),
                known(one.n, "1", whole),
                known(one.reference, "2", points),
                known(one.candidate, "3", points),
            ),
        )
        for index in order
        for one in (found[index],)
    ]
    yield from table("By class", ("class", "samples", "reference %", "candidate %"), rows, field="by_class")


def _outputs(found: Sequence[OutputError]) -> Iterator[Block]:
    """Yield each output by itself, the worst first; one alone is told above."""
    if len(found) < _SEVERAL:
        return
    order = sorted(found, key=lambda one: (one.identical, one.sqnr_db is not None, one.sqnr_db or 0.0))
    rows = [
        TableRow(
            pointer(one.name),
            (
                f"{one.name} (identical)" if one.identical else one.name,
                known(one.sqnr_db, "sqnr_db"),
                known(one.cosine, "cosine", lambda value: figure(value, 6)),
                known(one.max_abs_error, "max_abs_error"),
                known(one.sample, "sample", whole),
            ),
        )
        for one in order
    ]
    yield from table(
        "By output", ("output", "SQNR dB", "cosine", "largest error", "at sample"), rows, field="by_output"
    )
