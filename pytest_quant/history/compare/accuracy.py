"""The candidate's score at base and head, paired per sample where both records have the right answers per sample."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from pytest_quant.history.compare.comparison import CONFIDENCE, Outcome, Row, worse_or_better
from pytest_quant.history.compare.latency import on_common_machines
from pytest_quant.history.compare.pairing import Draft, Pair, measured, row_of
from pytest_quant.history.compare.scores import draft_of, paired_scores, score_row, unpaired, with_runs
from pytest_quant.history.rows import StoredCheck
from pytest_quant.metrics.answers import Array, answers_of
from pytest_quant.result import AccuracyResult, Interval
from pytest_quant.stats.paired import mcnemar_p, tango_interval


def compare_accuracy(pair: Pair) -> Iterator[Draft]:
    """Yield the row of the score, or of agreement or SQNR where there is none.

    Scores on other data, or by another metric, are shown and never compared. Launches of one commit may differ in their
    answers. Then the base and head launch with the least evidence of a change are compared, so that variation between
    launches of one commit is not taken for a change between two.
    """
    if pair.other_version:
        yield Draft(_not_compared(pair))
        return
    # Of two passes that were not joined only one was scored, maybe on another machine than the other.
    scored = (tuple(check for check in side if check.record.accuracy is not None) for side in (pair.base, pair.head))
    common, same_machine = on_common_machines(Pair(pair.series, *scored))
    sides = [_distinct(side) for side in (common.base, common.head)]
    if not all(sides):
        return
    chosen = _least([_between(pair, base, head) for base, head in product(*sides)])
    notes = (*chosen.row.notes, *_notes(common, sides, same_machine))
    yield chosen.having(notes=notes, base_launches=len(common.base), head_launches=len(common.head))


def _not_compared(pair: Pair) -> Row:
    """Return the row of two scores that differ in more than the candidate."""
    base, head = (_distinct(side)[0] for side in (pair.base, pair.head))
    is_one_metric = (base.unit, base.better) == (head.unit, head.better)
    why = "other evaluation data" if is_one_metric else "the metric has another unit or direction"
    row = row_of(pair, "accuracy", base.candidate, head.candidate, head.unit or "")
    return replace(row, outcome=Outcome.NO_BASELINE, notes=(why,))


def _distinct(launches: tuple[StoredCheck, ...]) -> list[AccuracyResult]:
    """Return the launches of base or head that differ in their answers, the last one first."""
    results: dict[tuple[object, ...], AccuracyResult] = {}
    for result in (check.record.accuracy for check in reversed(launches)):
        if result is not None:
            answers = (result.candidate_correct, result.candidate_scores)
            figures = (result.candidate, result.drop, result.agreement_pct, result.sqnr_db)
            results.setdefault((*answers, *figures), result)
    return list(results.values())


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


def _between(pair: Pair, base: AccuracyResult, head: AccuracyResult) -> Draft:
    """Compare two launches on the same data; where answers of one are damaged, by what else the records have."""
    was, now = answers_of(base), answers_of(head)
    if was.candidate is not None and now.candidate is not None and len(was.candidate) == len(now.candidate):
        return _paired(pair, base, head, was.candidate, now.candidate)
    if was.scores is not None and now.scores is not None and len(was.scores) == len(now.scores):
        return paired_scores(pair, base, head, was.scores, now.scores)
    if base.drop is not None and head.drop is not None:
        return unpaired(pair, base, head)
    return _without_metric(pair, base, head)


def _paired(pair: Pair, base: AccuracyResult, head: AccuracyResult, was: Array, now: Array) -> Draft:
    """Return a row with McNemar's exact test and Tango's interval; without a test where no answer changed."""
    lost, won = int(np.count_nonzero(was & ~now)), int(np.count_nonzero(now & ~was))
    n = len(was)
    rate = _rate(base, was) or _rate(head, now) or 1.0
    sign = 1.0 if head.better != "lower" else -1.0
    low, high = tango_interval(lost, won, n, confidence=CONFIDENCE)
    ends = sorted((-sign * rate * low, -sign * rate * high))
    change = sign * rate * (won - lost) / n + 0.0
    p = mcnemar_p(lost, won) if lost or won else None
    interval, p = with_runs(base, head, change, Interval(ends[0] + 0.0, ends[1] + 0.0), p)
    row = replace(score_row(pair, base, head), change=change, interval=interval, lost=lost, won=won)
    return draft_of(row, lost - won, p, base, head, floor=False)


def _rate(result: AccuracyResult, right: Array) -> float | None:
    """Return the score of one right answer in the metric's unit, 100 for percent."""
    share = float(np.mean(right)) if result.better != "lower" else 1.0 - float(np.mean(right))
    return result.candidate / share if result.candidate is not None and share > 0.0 else None


def _without_metric(pair: Pair, base: AccuracyResult, head: AccuracyResult) -> Draft:
    """Return the row of agreement or SQNR, which have no interval and never fail a comparison."""
    classes = base.agreement_pct is not None and head.agreement_pct is not None
    sqnr_db = (math.inf if each.identical else each.sqnr_db for each in (base, head))
    before, after = (base.agreement_pct, head.agreement_pct) if classes else sqnr_db
    row = row_of(
        pair, "agreement" if classes else "sqnr", _finite(before), _finite(after), "%" if classes else "dB", "higher"
    )
    row = replace(row, n=head.n)
    if before is None or after is None:
        return Draft(replace(row, outcome=Outcome.INCONCLUSIVE))
    if before == after:
        return Draft(replace(row, change=0.0))
    outcome = worse_or_better(after < before, proven=False)
    return Draft(replace(row, change=_finite(after - before), outcome=outcome))


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value


def _notes(pair: Pair, sides: list[list[AccuracyResult]], same_machine: bool) -> Iterator[str]:
    for name, side in zip(("base", "head"), sides, strict=True):
        if len(side) > 1:
            yield f"the answers vary between launches of the {name}"
    if same_machine:
        return
    tiers = [sorted({check.record.isa for check in side if measured(check.record)}) for side in (pair.base, pair.head)]
    if tiers[0] != tiers[1]:
        yield f"other instruction set: {' '.join(tiers[0])} -> {' '.join(tiers[1])}; int8 may round otherwise there"
