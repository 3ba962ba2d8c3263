"""The candidate's score at base and head, paired per sample if both records have scores of samples.

Scores that are right or wrong are tested by McNemar, others, an error for example, by the mean difference of samples;
without scores of samples the drops are compared by their intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from pytest_quant.environment.machine import has_vnni
from pytest_quant.history.compare.comparison import CONFIDENCE, Outcome, Row, choose_outcome
from pytest_quant.history.compare.pairing import Draft, Pair, is_measured, row_of, select_common_machines
from pytest_quant.history.rows import StoredCheck
from pytest_quant.metrics.answers import answers_of
from pytest_quant.metrics.metric import Array
from pytest_quant.record.figures import drop_unit
from pytest_quant.result import AccuracyResult, Interval
from pytest_quant.stats.bootstrap import paired_bootstrap
from pytest_quant.stats.paired import mcnemar_p, tango_interval
from pytest_quant.stats.ratio import student_tails
from pytest_quant.stats.runs import RunNoise, add_run_noise, assume_noise, tail_beyond

MIN_CHANGE = 1e-4
"""Of the reference's own score; a smaller change counts as none, however significant it is: kernels round that much."""

MIN_CHANGE_FROM_ZERO = 1e-6
"""The same in the metric's unit where the reference's score is 0 and nothing tells what is much."""


def compare_accuracy(pair: Pair) -> Iterator[Draft]:
    """Yield the row of the score, or without a score, of agreement or SQNR.

    Scores on other data, or by another metric, are shown and never compared. Launches of one commit may differ in their
    answers. Then the base and head launch with the least evidence of a change are compared, so that variation between
    launches of one commit is not taken for a change between two.
    """
    if pair.other_version:
        yield Draft(_skip_comparison(pair))
        return
    # Of two passes that were not joined only one was scored, maybe on another machine than the other.
    scored = (tuple(check for check in side if check.record.accuracy is not None) for side in (pair.base, pair.head))
    common, same_machine = select_common_machines(Pair(pair.series, *scored))
    sides = [_distinct(side) for side in (common.base, common.head)]
    if not all(sides):
        return
    chosen = _least([_compare_launches(pair, base, head) for base, head in product(*sides)])
    notes = (*chosen.row.notes, *_notes(common, sides, same_machine))
    yield chosen.replace_values(notes=notes, base_launches=len(common.base), head_launches=len(common.head))


def _skip_comparison(pair: Pair) -> Row:
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
    """Return the draft with the least evidence of a change; INCONCLUSIVE if they disagree about its direction."""
    least = min(drafts, key=_evidence)
    changes = [draft.row.change or 0.0 for draft in drafts]
    if least.row.outcome is Outcome.UNCHANGED or not min(changes) < 0.0 < max(changes):
        return least
    note = "launches of one commit disagree about the direction of the change"
    return Draft(replace(least.row, outcome=Outcome.INCONCLUSIVE, p=None, notes=(*least.row.notes, note)))


def _evidence(draft: Draft) -> tuple[bool, float, float]:
    row = draft.row
    return row.outcome is not Outcome.UNCHANGED, -(1.0 if row.p is None else row.p), abs(row.change or 0.0)


def _compare_launches(pair: Pair, base: AccuracyResult, head: AccuracyResult) -> Draft:
    """Compare two launches on the same data; if answers of either are damaged, by the other figures of the records."""
    was, now = answers_of(base), answers_of(head)
    if was.candidate is not None and now.candidate is not None and len(was.candidate) == len(now.candidate):
        return _compare_answers(pair, base, head, was.candidate, now.candidate)
    if was.scores is not None and now.scores is not None and len(was.scores) == len(now.scores):
        return compare_scores(pair, base, head, was.scores, now.scores)
    if base.drop is not None and head.drop is not None:
        return compare_drops(pair, base, head)
    return _compare_tensors(pair, base, head)


def _compare_answers(pair: Pair, base: AccuracyResult, head: AccuracyResult, was: Array, now: Array) -> Draft:
    """Return a row with McNemar's exact test and Tango's interval; without a test if no answer changed."""
    lost, won = int(np.count_nonzero(was & ~now)), int(np.count_nonzero(now & ~was))
    n = len(was)
    rate = _rate(base, was) or _rate(head, now) or 1.0
    sign = 1.0 if head.better != "lower" else -1.0
    low, high = tango_interval(lost, won, n, confidence=CONFIDENCE)
    ends = sorted((-sign * rate * low, -sign * rate * high))
    change = sign * rate * (won - lost) / n + 0.0
    p = mcnemar_p(lost, won) if lost or won else None
    interval, p = include_run_noise(base, head, change, Interval(ends[0] + 0.0, ends[1] + 0.0), p)
    row = replace(score_row(pair, base, head), change=change, interval=interval, lost=lost, won=won)
    return draft_of(row, lost - won, p, base, head, floor=False)


def _rate(result: AccuracyResult, right: Array) -> float | None:
    """Return the score of one right answer in the metric's unit, 100 for percent."""
    share = float(np.mean(right)) if result.better != "lower" else 1.0 - float(np.mean(right))
    return result.candidate / share if result.candidate is not None and share > 0.0 else None


def _compare_tensors(pair: Pair, base: AccuracyResult, head: AccuracyResult) -> Draft:
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
    outcome = choose_outcome(after < before, proven=False)
    return Draft(replace(row, change=_finite(after - before), outcome=outcome))


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value


def _notes(pair: Pair, sides: list[list[AccuracyResult]], same_machine: bool) -> Iterator[str]:
    for name, side in zip(("base", "head"), sides, strict=True):
        if len(side) > 1:
            yield f"the answers vary between launches of the {name}"
    if same_machine:
        return
    tiers = [
        sorted({check.record.isa for check in side if is_measured(check.record)}) for side in (pair.base, pair.head)
    ]
    if tiers[0] != tiers[1]:
        kinds = [{has_vnni(tier) for tier in side} for side in tiers]
        may = "round otherwise there" if kinds[0] == kinds[1] else "saturate without VNNI, and accuracy differ by it"
        yield f"other instruction set: {' '.join(tiers[0])} -> {' '.join(tiers[1])}; int8 may {may}"


def reference_note(base: AccuracyResult, head: AccuracyResult) -> tuple[str, ...]:
    """Return a note with both scores of the reference if they differ."""
    if base.reference == head.reference or base.reference is None or head.reference is None:
        return ()
    scores = f"{base.reference:.6g} -> {head.reference:.6g} {head.unit or ''}".rstrip()
    return (f"the reference's own score changed: {scores}",)


def paired_p(differences: NDArray[np.float64]) -> float | None:
    """Return the two-sided p that it is chance which of two commits has the better score of a sample.

    Student's t of the mean difference (1908), and never below 2^(1 - k), the least that flipping the signs of k
    differences other than 0 can give (Fisher 1935, The Design of Experiments, section 21): t takes three equal changes
    among many samples for proof. ``None`` where no sample differs.

    Parameters
    ----------
    differences : head less base, of each sample (n,).
    """
    n, changed = len(differences), int(np.count_nonzero(differences))
    if not changed:
        return None
    error = float(np.std(differences, ddof=1)) / math.sqrt(n) if n > 1 else 0.0
    least = math.ldexp(1.0, 1 - changed)
    if error == 0.0:
        return least
    return min(1.0, max(least, student_tails(abs(float(np.mean(differences))) / error, n - 1.0)))


def score_row(pair: Pair, base: AccuracyResult, head: AccuracyResult) -> Row:
    """Return the row of the candidate's score, without its change."""
    row = row_of(pair, "accuracy", base.candidate, head.candidate, head.unit or "", head.better)
    return replace(row, n=head.n, notes=reference_note(base, head))


def compare_scores(
    pair: Pair, base: AccuracyResult, head: AccuracyResult, was: NDArray[np.float64], now: NDArray[np.float64]
) -> Draft:
    """Return the row of the candidate's score, compared sample by sample.

    Parameters
    ----------
    pair : launches of the series.
    base, head : what the two records found.
    was, now : score of each sample at base and head in the metric's unit, in the same order (n,).
    """
    # Scores of samples are kept in float32, and the mean over all of them is known better than that.
    change = (head.candidate or 0.0) - (base.candidate or 0.0)
    p = paired_p(now - was)
    span = paired_bootstrap(now, was, np.mean, confidence=CONFIDENCE, span=0.0) if p is not None else None
    interval, p = include_run_noise(base, head, change, None if span is None else Interval(span.low, span.high), p)
    row = replace(score_row(pair, base, head), change=change, interval=interval)
    return draft_of(row, change if head.better == "lower" else -change, p, base, head)


def include_run_noise(
    base: AccuracyResult, head: AccuracyResult, change: float, interval: Interval | None, p: float | None
) -> tuple[Interval | None, float | None]:
    """Return the interval of a change and its p with the noise between runs that either side shows or assumes.

    It is taken whole, of which the pairs of samples have a part already: the result errs to the side of no change.
    """
    seen = [each for each in (base, head) if each.run_sd is not None]
    freedom = [(each.reference_runs or 1) + (each.candidate_runs or 1) - 2 for each in seen]
    runs = [each.candidate_runs or 1 for each in (base, head)]
    noise = assume_noise(max(each.assumed_run_sd or 0.0 for each in (base, head)), *runs)
    if sum(freedom):
        squares = sum(count * (each.run_sd or 0.0) ** 2 for count, each in zip(freedom, seen, strict=True))
        noise = RunNoise(squares / sum(freedom) * sum(1.0 / number for number in runs), None, sum(freedom))
    if not noise.variance or interval is None or p is None:
        return interval, p
    nearest = abs(change) - (change - interval.low if change > 0.0 else interval.high - change)
    beyond = 2.0 * tail_beyond(0.0, abs(change), nearest, noise, CONFIDENCE)
    return Interval(*add_run_noise(change, interval, noise, CONFIDENCE)), max(p, beyond)


def draft_of(
    row: Row, worse_by: float, p: float | None, base: AccuracyResult, head: AccuracyResult, *, floor: bool = True
) -> Draft:
    """Return `row` with its outcome; a change is tested together with all others.

    A change below the `floor`, see `MIN_CHANGE`, is not tested; percentages of answers have steps of their own.
    """
    row = replace(row, p=p)
    scale = max(abs(each.reference or 0.0) for each in (base, head))
    least = MIN_CHANGE * scale if scale > 0.0 else MIN_CHANGE_FROM_ZERO
    if worse_by == 0.0:
        same = base.candidate == head.candidate and p is None
        return Draft(replace(row, outcome=Outcome.UNCHANGED if same else Outcome.CHANGED))
    as_it_is, rejected = (
        replace(row, outcome=choose_outcome(worse_by > 0.0, proven=proven)) for proven in (False, True)
    )
    if p is None or (floor and abs(worse_by) < least):
        return Draft(replace(as_it_is, p=None))
    return Draft(as_it_is, rejected)


def compare_drops(pair: Pair, base: AccuracyResult, head: AccuracyResult) -> Draft:
    """Return the row of the drop against the own reference, for records without scores per sample."""
    change = (head.drop or 0.0) - (base.drop or 0.0)
    row = row_of(pair, "drop", base.drop, head.drop, drop_unit(head.unit), "lower")
    notes = (*_intervals_note(base, head), *reference_note(base, head))
    row = replace(row, change=change, n=head.n, notes=notes)
    return draft_of(row, change, _p_of_intervals(base, head) if change else None, base, head)


def _p_of_intervals(base: AccuracyResult, head: AccuracyResult) -> float | None:
    """Return the two-sided normal p of equal drops, its standard errors from the ends that face the other drop.

    The two drops are taken for independent, which makes p too large where both are of the same samples. ``None``
    without an interval.
    """
    lower, upper = sorted((base, head), key=lambda accuracy: accuracy.drop or 0.0)
    if lower.drop is None or upper.drop is None or lower.drop_ci is None or upper.drop_ci is None:
        return None
    errors = (
        (lower.drop_ci.high - lower.drop) / _reach(lower.confidence),
        (upper.drop - upper.drop_ci.low) / _reach(upper.confidence),
    )
    error = math.hypot(*errors)
    return 2.0 * NormalDist().cdf((lower.drop - upper.drop) / error) if error > 0.0 else 0.0


def _reach(confidence: float) -> float:
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


def _intervals_note(base: AccuracyResult, head: AccuracyResult) -> tuple[str, ...]:
    if base.drop == head.drop:
        return ()
    spans = (f"[{each.drop_ci.low:.4g}, {each.drop_ci.high:.4g}]" if each.drop_ci else "none" for each in (base, head))
    return (f"intervals of the drop: {' -> '.join(spans)}",)
