"""Verdicts on accuracy that hold only where the figures carry them: a limit that nothing could break is not passed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pytest_quant.result import AccuracyResult, Status, Verdict

_OF_SCORE = ("max_drop", "min_ratio", "max_drop_increase")
_SPREADS = 3.0
"""A limit must lie so many times the difference of two evaluations away from them."""


def reference_doubts(accuracy: AccuracyResult, output: str | None) -> tuple[str, ...]:
    """Return why the reference cannot tell a good candidate from a bad one, as ends of sentences; empty when it can.

    `output` is the one that the metric reads, ``None`` for the first.
    """
    doubts = []
    judged = next((one for one in accuracy.by_output if output in (None, one.name)), None)
    if judged is not None and judged.reference_constant:
        doubts.append(f"the reference gives every sample the same '{judged.name}'")
    if accuracy.better == "higher" and accuracy.reference is not None:
        unit = f" {accuracy.unit}" if accuracy.unit else ""
        score = f"the reference itself scores {accuracy.reference:.4g}{unit}"
        if accuracy.chance is not None and accuracy.reference <= accuracy.chance:
            doubts.append(f"{score}, and guessing gives {accuracy.chance:.4g}{unit}")
        elif accuracy.unit == "%" and accuracy.reference == 0.0:
            doubts.append(score)
    return tuple(doubts)


def carried(verdicts: Iterable[Verdict], accuracy: AccuracyResult, output: str | None) -> Iterator[Verdict]:
    """Yield `verdicts`; a limit on the score that only a better reference could break is INCONCLUSIVE, not PASS."""
    doubts = reference_doubts(accuracy, output)
    for verdict in verdicts:
        if doubts and verdict.status is Status.PASS and verdict.limit in _OF_SCORE:
            reason = f"{verdict.reason}, but {' and '.join(doubts)}: there is nothing to lose"
            yield replace(verdict, status=Status.INCONCLUSIVE, reason=reason)
        else:
            yield verdict


def repeated(first: Iterable[Verdict], again: Iterable[Verdict]) -> Iterator[Verdict]:
    """Yield the verdicts of one evaluation that a second one, of engines that differ from themselves, cannot flip."""
    others = {verdict.limit: verdict for verdict in again}
    for verdict in first:
        other = others.get(verdict.limit)
        if other is not None and not _could_flip(verdict, other):
            yield verdict
            continue
        shown = "nothing" if other is None or other.observed is None else f"{other.observed:.6g}"
        reason = (
            f"{verdict.reason}, but a second evaluation of the same data gives {shown}: an engine is nondeterministic"
        )
        yield replace(verdict, status=Status.INCONCLUSIVE, reason=reason)


def _could_flip(one: Verdict, other: Verdict) -> bool:
    if one.status is not other.status:
        return True
    if one.observed is None or other.observed is None or one.allowed is None:
        return one.observed != other.observed
    spread = abs(one.observed - other.observed)
    return spread > 0.0 and min(abs(one.observed - one.allowed), abs(other.observed - one.allowed)) <= _SPREADS * spread
