"""The candidate's score at base and head, paired per sample where both records have the right answers per sample."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import HistoryError
from pytest_quant.history.compare.comparison import CONFIDENCE, Outcome, Quantity, worse_or_better
from pytest_quant.history.compare.latency import on_common_machines
from pytest_quant.history.compare.pairing import Draft, Pair, measured, row_of
from pytest_quant.history.compare.scores import change_unit, paired_scores, reference_note, unpaired
from pytest_quant.history.rows import StoredCheck
from pytest_quant.record import Record
from pytest_quant.result import AccuracyResult, Interval
from pytest_quant.stats.paired import mcnemar_p, tango_interval

Bits = NDArray[Any]
Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Answers:
    """The answers of one launch, or of several with equal answers."""

    record: Record
    result: AccuracyResult
    right: Bits | None
    scores: Scores | None


def compare_accuracy(pair: Pair) -> Iterator[Draft]:
    """Yield the row of the score, or of agreement or SQNR where there is none.

    Launches of one commit may differ in their answers. Then the base and head launch with the least evidence of a
    change are compared, so that variation between launches of one commit is not taken for a change between two.
    """
    common, same_machine = on_common_machines(pair)
    sides = [_samples(side) for side in (common.base, common.head)]
    if not all(sides):
        return
    chosen = _least([_between(pair, base, head) for base, head in product(*sides)])
    notes = (*chosen.row.notes, *_notes(common, sides, same_machine))
    yield chosen.having(notes=notes, base_launches=len(common.base), head_launches=len(common.head))


def _samples(launches: tuple[StoredCheck, ...]) -> list[_Answers]:
    """Return the distinct answers of the launches of base or head, the last launch first."""
    samples: dict[tuple[object, ...], _Answers] = {}
    for record in (check.record for check in reversed(launches)):
        result = record.accuracy
        if result is not None:
            answers = (
                *(result.candidate_correct, result.candidate_scores),
                *(result.candidate, result.drop, result.agreement_pct, result.sqnr_db),
            )
            if answers not in samples:
                _, right = answers_of(result, record.nodeid)
                samples[answers] = _Answers(record, result, right, scores_of(result, record.nodeid))
    return list(samples.values())


def _least(drafts: list[Draft]) -> Draft:
    """Return the draft with the least evidence of a change; INCONCLUSIVE where they disagree about its direction."""
    least = min(drafts, key=_evidence)
    changes = [draft.row.change or 0.0 for draft in drafts]
    if least.row.outcome is Outcome.UNCHANGED or not min(changes) < 0.0 < max(changes):
        return least
    note = "launches of one commit disagree about the direction of the change"
    return Draft(replace(least.row, outcome=Outcome.INCONCLUSIVE, p=None, notes=(*least.row.notes, note)))


def _evidence(draft: Draft) -> tuple[bool, float, float]:
    row = draft.row
    return row.outcome is not Outcome.UNCHANGED, -(1.0 if row.p is None else row.p), abs(row.change or 0.0)


def _between(pair: Pair, base: _Answers, head: _Answers) -> Draft:
    """Compare two launches on the same data."""
    if base.right is not None and head.right is not None and len(base.right) == len(head.right):
        return _paired(pair, base, head, base.right, head.right)
    if base.scores is not None and head.scores is not None and len(base.scores) == len(head.scores):
        return paired_scores(pair, base.result, head.result, head.record, base.scores, head.scores)
    if base.result.drop is not None and head.result.drop is not None:
        return unpaired(pair, base.result, head.result, head.record)
    return _without_metric(pair, base.result, head.result, head.record)


def _paired(pair: Pair, base: _Answers, head: _Answers, was: Bits, now: Bits) -> Draft:
    """Return a row with McNemar's exact test and Tango's interval; without a test where no answer changed."""
    lost, won = int(np.count_nonzero(was & ~now)), int(np.count_nonzero(now & ~was))
    n, result = len(was), head.result
    higher = result.better != "lower"
    rate = _rate(base.result, was) or _rate(result, now) or 1.0
    sign = 1.0 if higher else -1.0
    low, high = tango_interval(lost, won, n, confidence=CONFIDENCE)
    ends = sorted((-sign * rate * low, -sign * rate * high))
    row = replace(
        row_of(pair, head.record, "accuracy"),
        unit=result.unit or "",
        better=result.better,
        base=base.result.candidate,
        head=result.candidate,
        change=sign * rate * (won - lost) / n + 0.0,
        change_unit=change_unit(result.unit),
        interval=Interval(ends[0] + 0.0, ends[1] + 0.0),
        p=mcnemar_p(lost, won) if lost or won else None,
        lost=lost,
        won=won,
        n=n,
        notes=reference_note(base.result, result),
    )
    if lost == won:
        return Draft(replace(row, outcome=Outcome.CHANGED if lost else Outcome.UNCHANGED))
    as_it_is, rejected = (replace(row, outcome=worse_or_better(lost > won, proven=proven)) for proven in (False, True))
    return Draft(as_it_is, rejected)


def _rate(result: AccuracyResult, right: Bits) -> float | None:
    """Return the score of one right answer in the metric's unit, 100 for percent."""
    share = float(np.mean(right)) if result.better != "lower" else 1.0 - float(np.mean(right))
    return result.candidate / share if result.candidate is not None and share > 0.0 else None


def _without_metric(pair: Pair, base: AccuracyResult, head: AccuracyResult, record: Record) -> Draft:
    """Return the row of agreement or SQNR, which have no interval and never fail a comparison."""
    classes = base.agreement_pct is not None and head.agreement_pct is not None
    quantity: Quantity = "agreement" if classes else "sqnr"
    unit = "%" if classes else "dB"
    before, after = (each.agreement_pct if classes else _sqnr(each) for each in (base, head))
    row = replace(
        row_of(pair, record, quantity),
        unit=unit,
        better="higher",
        base=_finite(before),
        head=_finite(after),
        change_unit=change_unit(unit),
        n=head.n,
    )
    if before is None or after is None:
        return Draft(replace(row, outcome=Outcome.INCONCLUSIVE))
    if before == after:
        return Draft(replace(row, change=0.0))
    outcome = worse_or_better(after < before, proven=False)
    return Draft(replace(row, change=_finite(after - before), outcome=outcome))


def _sqnr(result: AccuracyResult) -> float | None:
    """Return the SQNR in dB, infinite for identical outputs."""
    return math.inf if result.identical else result.sqnr_db


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value


def _notes(pair: Pair, sides: list[list[_Answers]], same_machine: bool) -> Iterator[str]:
    for name, side in zip(("base", "head"), sides, strict=True):
        if len(side) > 1:
            yield f"the answers vary between launches of the {name}"
    if same_machine:
        return
    tiers = [sorted({check.record.isa for check in side if measured(check.record)}) for side in (pair.base, pair.head)]
    if tiers[0] != tiers[1]:
        yield f"other instruction set: {' '.join(tiers[0])} -> {' '.join(tiers[1])}; int8 may round otherwise there"


def answers_of(result: AccuracyResult, nodeid: str) -> tuple[Bits | None, Bits | None]:
    """Return masks (n,) of the samples that reference and candidate get right, ``None`` where the record has none.

    Parameters
    ----------
    result : accuracy of a record.
    nodeid : of its test, for messages.

    Raises
    ------
    HistoryError : a stored mask is damaged, or has another number of samples.
    """
    return _bits(result.reference_correct, result.n, nodeid), _bits(result.candidate_correct, result.n, nodeid)


def scores_of(result: AccuracyResult, nodeid: str) -> Scores | None:
    """Return the candidate's score of each sample (n,) in the metric's unit, ``None`` where the record has none.

    Raises
    ------
    HistoryError : the stored scores are damaged, or of another number of samples.
    """
    if result.candidate_scores is None:
        return None
    raw = _inflated(result.candidate_scores, nodeid)
    scores = np.frombuffer(raw, "<f4").astype(np.float64) if len(raw) == _SCORE_BYTES * result.n else None
    if scores is None or not np.isfinite(scores).all():
        raise _damaged(nodeid, f"{len(raw)} bytes for {result.n} samples")
    return scores


_SCORE_BYTES = 4


def _bits(text: str | None, n: int, nodeid: str) -> Bits | None:
    if text is None:
        return None
    packed = np.frombuffer(_inflated(text, nodeid), np.uint8)
    if len(packed) != (n + 7) // 8:
        raise _damaged(nodeid, f"{len(packed)} bytes for {n} samples")
    return np.unpackbits(packed, count=n).astype(bool)


def _inflated(text: str, nodeid: str) -> bytes:
    try:
        return zlib.decompress(base64.b64decode(text, validate=True))
    except (ValueError, zlib.error) as error:
        raise _damaged(nodeid, str(error)) from error


def _damaged(nodeid: str, value: str) -> HistoryError:
    return HistoryError(
        f"the answers kept of {nodeid} are damaged",
        value=value,
        allowed="one bit for each sample, or a score of four bytes, deflated, in base64",
        fix="run the test again, or remove its run from the history",
    )
