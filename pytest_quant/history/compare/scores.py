"""Scores that are not right or wrong, an error for example, at base and head: paired per sample, else by intervals."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from pytest_quant.history.compare.comparison import CONFIDENCE, Outcome, Row, worse_or_better
from pytest_quant.history.compare.pairing import Draft, Pair, row_of, unit_of_change
from pytest_quant.result import AccuracyResult, Interval
from pytest_quant.stats.paired import paired_bootstrap
from pytest_quant.stats.ratio import student_tails
from pytest_quant.stats.runs import RunNoise, assumed_noise, tail_beyond, with_run_noise

MIN_CHANGE = 1e-4
"""Of the reference's own score; a smaller change counts as none, however significant it is: kernels round that much."""

MIN_CHANGE_FROM_ZERO = 1e-6
"""The same in the metric's unit where the reference's score is 0 and nothing tells what is much."""


def reference_note(base: AccuracyResult, head: AccuracyResult) -> tuple[str, ...]:
    """Return a note with both scores of the reference where they differ."""
    if base.reference == head.reference or base.reference is None or head.reference is None:
        return ()
    scores = f"{base.reference:.6g} -> {head.reference:.6g} {head.unit or ''}".rstrip()
    return (f"the reference's own score changed: {scores}",)


def is_negligible(change: float, base: AccuracyResult, head: AccuracyResult) -> bool:
    """Tell whether a change of a score is too small to be one; percentages of answers have steps of their own."""
    scale = max(abs(each.reference or 0.0) for each in (base, head))
    return abs(change) < (MIN_CHANGE * scale if scale > 0.0 else MIN_CHANGE_FROM_ZERO)


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


def paired_scores(
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
    span = paired_bootstrap(now, was, _mean, confidence=CONFIDENCE, span=0.0) if p is not None else None
    interval, p = with_runs(base, head, change, None if span is None else Interval(span.low, span.high), p)
    row = replace(score_row(pair, base, head), change=change, interval=interval)
    return draft_of(row, change if head.better == "lower" else -change, p, base, head)


def with_runs(
    base: AccuracyResult, head: AccuracyResult, change: float, interval: Interval | None, p: float | None
) -> tuple[Interval | None, float | None]:
    """Return the interval of a change and its p with the noise between runs that either side shows or assumes.

    It is taken whole, of which the pairs of samples have a part already: the result errs to the side of no change.
    """
    seen = [each for each in (base, head) if each.run_sd is not None]
    freedom = [(each.reference_runs or 1) + (each.candidate_runs or 1) - 2 for each in seen]
    runs = [each.candidate_runs or 1 for each in (base, head)]
    noise = assumed_noise(max(each.assumed_run_sd or 0.0 for each in (base, head)), *runs)
    if sum(freedom):
        squares = sum(count * (each.run_sd or 0.0) ** 2 for count, each in zip(freedom, seen, strict=True))
        noise = RunNoise(squares / sum(freedom) * sum(1.0 / number for number in runs), None, sum(freedom))
    if not noise.variance or interval is None or p is None:
        return interval, p
    nearest = abs(change) - (change - interval.low if change > 0.0 else interval.high - change)
    beyond = 2.0 * tail_beyond(0.0, abs(change), nearest, noise, CONFIDENCE)
    return Interval(*with_run_noise(change, interval, noise, CONFIDENCE)), max(p, beyond)


def _mean(scores: NDArray[np.float64]) -> float:
    return float(np.mean(scores))


def draft_of(
    row: Row, worse_by: float, p: float | None, base: AccuracyResult, head: AccuracyResult, *, floor: bool = True
) -> Draft:
    """Return `row` with its outcome; a change is tested together with all others, a negligible one below a `floor`."""
    row = replace(row, p=p)
    if worse_by == 0.0:
        same = base.candidate == head.candidate and p is None
        return Draft(replace(row, outcome=Outcome.UNCHANGED if same else Outcome.CHANGED))
    as_it_is, rejected = (
        replace(row, outcome=worse_or_better(worse_by > 0.0, proven=proven)) for proven in (False, True)
    )
    if p is None or (floor and is_negligible(worse_by, base, head)):
        return Draft(replace(as_it_is, p=None))
    return Draft(as_it_is, rejected)


def unpaired(pair: Pair, base: AccuracyResult, head: AccuracyResult) -> Draft:
    """Return the row of the drop against the own reference, where no scores per sample are there to be paired."""
    change = (head.drop or 0.0) - (base.drop or 0.0)
    row = row_of(pair, "drop", base.drop, head.drop, unit_of_change(head.unit), "lower")
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
