"""Limits on how far outputs lie from the reference's. Each output is judged by itself, and the worst one decides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_quant.result import AccuracyResult, OutputError, Status, Verdict
from pytest_quant.spec import Limits, OutputLimit
from pytest_quant.verdict.rules import at_least, at_most, not_measured


@dataclass(frozen=True, slots=True)
class _Figure:
    """One figure of an output.

    Attributes
    ----------
    perfect : the figure of an output that is identical, whatever it holds.
    compare, worst : the comparison with a limit, and which of several figures is the worst.
    missing : why an output may have no such figure.
    """

    read: Callable[[OutputError], float | None]
    perfect: float
    compare: Callable[[str, float, float, str], Verdict]
    worst: Callable[[Sequence[float]], float]
    unit: str
    missing: str


_FIGURES = {
    "min_sqnr_db": _Figure(
        lambda found: found.sqnr_db, math.inf, at_least, min, " dB", "has no SQNR: its reference is all zero, or text"
    ),
    "min_cosine": _Figure(lambda found: found.cosine, 1.0, at_least, min, "", "has no cosine: it is all zero, or text"),
    "max_abs_error": _Figure(lambda found: found.max_abs_error, 0.0, at_most, max, "", "is text and has no error"),
}


def tensor_verdicts(limits: Limits, accuracy: AccuracyResult, output: str | None = None) -> Iterator[Verdict]:
    """Yield one verdict for a limit on all outputs, and one for each output where a limit names them.

    Parameters
    ----------
    output : the only one to judge where a limit names none; ``None`` judges all of them.
    """
    for limit, figure in _FIGURES.items():
        asked: OutputLimit | None = getattr(limits, limit)
        if isinstance(asked, tuple):
            for name, allowed in asked:
                yield _judge(f"{limit}[{name}]", allowed, figure, accuracy, name)
        elif asked is not None:
            yield _judge(limit, asked, figure, accuracy, output)


def _judge(limit: str, allowed: float, figure: _Figure, accuracy: AccuracyResult, output: str | None) -> Verdict:
    """Judge the worst of the outputs called `output`, or of its groups of channels; of all outputs for ``None``."""
    chosen = [found for found in accuracy.by_output if output is None or output in (found.name, found.group_of)]
    if not chosen:
        missing = "no output" if output is None else f"no output '{output}'"
        return not_measured(limit, allowed, f"{missing} could be compared")
    known = {found.name: figure.perfect if found.identical else figure.read(found) for found in chosen}
    measured = {name: value for name, value in known.items() if value is not None}
    unmeasured = next((name for name in known if name not in measured), None)
    if measured:
        observed = figure.worst(list(measured.values()))
        verdict = figure.compare(limit, allowed, observed, figure.unit)
        if verdict.status is Status.FAIL or unmeasured is None:
            name = next(name for name, value in measured.items() if value == observed)
            return replace(verdict, reason=verdict.reason + _where(name, len(chosen), len(accuracy.by_output)))
    return not_measured(limit, allowed, f"output '{unmeasured}' {figure.missing}")


def _where(name: str, judged: int, outputs: int) -> str:
    """Name the output, unless there is no other."""
    if outputs == 1:
        return ""
    return f" in output '{name}'" + (f", the worst of {judged}" if judged > 1 else "")
