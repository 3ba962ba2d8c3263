"""The accuracy of one check: scores, classes, outputs, and the samples that were lost and won."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import HistoryError
from pytest_quant.history.compare.samples import answers_of
from pytest_quant.record import Record
from pytest_quant.report.page.blocks import before_after, cell, facts, lines, measured, table, whole
from pytest_quant.report.page.content import Block, Lines, Section, TableCell
from pytest_quant.report.text import figure, in_unit, points
from pytest_quant.result import AccuracyResult, ClassScore, OutputError, WorstClass

_MOST_SAMPLES = 12
_SEVERAL = 2


def accuracy_section(record: Record) -> Section:
    """Return the section about accuracy; without blocks where nothing was compared."""
    accuracy = record.accuracy
    blocks: list[Block] = []
    if accuracy is not None:
        blocks += lines(
            f"output {fault.output}, sample {fault.sample}: {fault.kind}: {fault.detail}" for fault in accuracy.faults
        )
        blocks += _scores(accuracy)
        blocks += _outputs_together(accuracy)
        blocks += _samples(accuracy, record.nodeid)
        blocks += _classes(accuracy.by_class)
        blocks += _outputs(accuracy.by_output)
    return Section("Accuracy", tuple(blocks))


def _scores(accuracy: AccuracyResult) -> Iterator[Block]:
    unit = accuracy.unit or ""
    form = partial(in_unit, unit=unit)
    scores = before_after(accuracy.reference, accuracy.candidate, unit, form)
    simulated = " (float simulation)" if scores and accuracy.simulated else ""
    worst = accuracy.worst_class
    worst_class = "" if worst is None else f"{worst.label}: {_class_scores(worst)} % of {whole(worst.n)}"
    yield from facts(
        (accuracy.metric or "score", f"{scores}{simulated}"),
        ("drop", measured(accuracy.drop, "pp" if unit == "%" else unit, accuracy.drop_ci, form)),
        ("confidence of intervals", f"{accuracy.confidence:.0%}" if accuracy.drop_ci is not None else ""),
        ("samples", whole(accuracy.n)),
        ("right in only one engine", whole(accuracy.discordant)),
        ("McNemar p", figure(accuracy.p_value, 2)),
        ("samples that would tell", whole(accuracy.n_to_resolve)),
        ("what no look at the samples scores", measured(accuracy.chance, unit, form=form)),
        ("worst class", worst_class),
        ("same top class", measured(accuracy.agreement_pct, "%", form=points)),
    )


def _class_scores(score: ClassScore | WorstClass) -> str:
    return before_after(score.reference, score.candidate, form=points)


def _outputs_together(accuracy: AccuracyResult) -> Iterator[Block]:
    sample = accuracy.max_abs_error_sample
    at = f"at sample {sample}" if sample is not None else ""
    yield from facts(
        ("outputs", "identical" if accuracy.identical else ""),
        ("SQNR, the lowest", measured(accuracy.sqnr_db, "dB")),
        ("cosine, the lowest", figure(accuracy.cosine, 6)),
        ("largest error", measured(accuracy.max_abs_error, at)),
        ("KL", measured(accuracy.kl, "nats")),
    )


def _samples(accuracy: AccuracyResult, nodeid: str) -> Iterator[Block]:
    """Yield which samples were lost and won, by their index in the evaluation set."""
    try:
        reference, candidate = answers_of(accuracy, nodeid)
    except HistoryError as error:
        yield Lines((error.what,))
        return
    if reference is None or candidate is None:
        return
    yield from facts(
        ("samples lost", _indices(np.flatnonzero(reference & ~candidate))),
        ("samples won", _indices(np.flatnonzero(candidate & ~reference))),
    )


def _indices(samples: NDArray[Any]) -> str:
    if not samples.size:
        return "none"
    shown = ", ".join(map(str, samples[:_MOST_SAMPLES].tolist()))
    return f"{samples.size}: {shown}" + (", ..." if samples.size > _MOST_SAMPLES else "")


def _classes(scores: Sequence[ClassScore]) -> Iterator[Block]:
    """Yield the classes, those that lost most first."""
    rows = [
        (cell(score.label, whole), cell(score.n, whole), cell(score.reference, points), cell(score.candidate, points))
        for score in sorted(scores, key=lambda score: score.candidate - score.reference)
    ]
    yield from table("By class", ("class", "samples", "reference %", "candidate %"), rows)


def _outputs(errors: Sequence[OutputError]) -> Iterator[Block]:
    """Yield each output by itself, the worst first; one alone is told above."""
    if len(errors) < _SEVERAL:
        return
    worst_first = sorted(errors, key=lambda error: (error.identical, error.sqnr_db is not None, error.sqnr_db or 0.0))
    rows = [
        (
            TableCell(f"{error.name} (identical)" if error.identical else error.name),
            cell(error.sqnr_db),
            cell(error.cosine, partial(figure, digits=6)),
            cell(error.max_abs_error),
            cell(error.sample, whole),
        )
        for error in worst_first
    ]
    yield from table("By output", ("output", "SQNR dB", "cosine", "largest error", "at sample"), rows)
