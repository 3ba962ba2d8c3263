"""Scores of both sides by one task metric, with the interval of their drop."""

from __future__ import annotations

import hashlib
import json
import math
import timeit
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from pytest_quant.clocks import REAL
from pytest_quant.errors import UsageError
from pytest_quant.metrics.answers import pack, pack_scores
from pytest_quant.metrics.metric import Array, Outputs, ResolvedMetric, as_ratio
from pytest_quant.result import AccuracyResult, Interval
from pytest_quant.stats.bootstrap import COSTLY, DECIDING, USUAL, Resampled, Resampling, paired_bootstrap
from pytest_quant.stats.paired import (
    SPREADS,
    mcnemar_p,
    samples_to_resolve,
    tango_interval,
    variance_at,
    wilson_interval,
)

# What one bootstrap may take. A slower one has fewer resamples, of a few fixed counts: on machines where the same count
# fits, equal data give an equal interval.
MOST_S = 120.0

Sides: TypeAlias = tuple[Array, Array]
"""Statistics of a metric for the same samples, of reference and candidate."""

FEWEST_UNBOUNDED = 10
"""Samples from which a score without a largest value has an interval: what fewer show says little about the next."""


class PairedStatistics:
    """Accumulates a metric's statistics: a few numbers per sample, or whole samples for a third party's metric.

    `metric` is one of means until its function gives numerators and denominators.
    """

    def __init__(self, metric: ResolvedMetric) -> None:
        self.metric = metric
        self._reference: list[Array] = []
        self._candidate: list[Array] = []
        self._samples: list[Array] = []
        self._labels: list[Array] = []

    @property
    def sides(self) -> Sides:
        """Statistics of reference and candidate, k rows of the samples that could be scored."""
        return np.concatenate(self._reference), np.concatenate(self._candidate)

    @property
    def samples(self) -> Array:
        """Index in the set of each of these samples (k,)."""
        return np.concatenate(self._samples)

    @property
    def labels(self) -> Array | None:
        """Label of each of these samples (k,); ``None`` where they are not one integer each."""
        return np.concatenate(self._labels) if len(self._labels) == len(self._samples) else None

    def add(self, reference: Outputs, candidate: Outputs, labels: Outputs, sound: Array, start: int) -> None:
        """Score one chunk of consecutive samples.

        Parameters
        ----------
        reference, candidate : outputs (n, ...) of one shape, or dicts of them by name.
        labels : (n, ...), or objects (n,); for a metric against the reference, `reference`.
        sound : mask (n,) of the samples whose outputs can be compared; the others count as wrong for a metric of right
            and wrong, and are left out of any other.
        start : index of the first sample in the set, for messages.

        Raises
        ------
        UsageError : the metric gives NaN or Inf for a sample.
        """
        counts_wrong = self.metric.reads_classes and self.metric.rate is not None
        rows = np.arange(len(sound)) if counts_wrong else np.flatnonzero(sound)
        if not len(rows):
            return
        chosen = slice(None) if len(rows) == len(sound) else rows
        samples, labels = start + rows, take(labels, chosen)
        self._samples.append(samples)
        self._reference.append(self._statistics(take(reference, chosen), labels, samples))
        self._candidate.append(self._statistics(take(candidate, chosen), labels, samples))
        if counts_wrong:
            self._candidate[-1][~sound] = False
        if not isinstance(labels, dict) and labels.dtype.kind in "iub" and labels.size == len(labels):
            self._labels.append(labels.reshape(-1).astype(np.int64))

    def _statistics(self, outputs: Outputs, labels: Outputs, samples: Array) -> Array:
        """Return the statistics of finite outputs; `samples` (n,) are their indices in the set."""
        statistics = self.metric.statistics(outputs, labels)
        if self.metric.rate is not None and statistics.ndim == 2:
            self.metric = as_ratio(self.metric)
        is_number = (self.metric.rate is not None or self.metric.is_ratio) and statistics.dtype.kind == "f"
        if is_number and not np.isfinite(statistics).all():
            row = int(np.argmin(np.isfinite(statistics.reshape(len(statistics), -1)).all(axis=1)))
            raise UsageError(
                f"metric '{self.metric.name}' must give a finite score for every sample",
                value=f"{statistics[row]} for sample {int(samples[row])}",
                fix="give the score of such a sample its worst value, or leave the sample out of the data",
            )
        return statistics

    def add_to(
        self, result: AccuracyResult, margin: float | None, confidence: float, clusters: Array | None = None
    ) -> AccuracyResult:
        """Return `result` with the scores of both engines.

        Parameters
        ----------
        result : figures that need no metric.
        margin : limit on the drop in the metric's unit, for which the samples needed to decide it are computed;
            ``None`` for no limit.
        confidence : of the drop's interval, 0..1.
        clusters : for each sample of the set the number of its cluster, whose samples depend on each other.

        Raises
        ------
        UsageError : a third party's metric gives no number for these samples.
        """
        metric = self.metric
        result = replace(result, metric=metric.name, unit=metric.unit, better=metric.better, confidence=confidence)
        if not self._reference:
            return result
        if metric.reads_classes and metric.rate is None:
            lucky = [_score_shuffled(metric, side, result.n_different) for side in self.sides]
            result = replace(result, chance=lucky[0], candidate_chance=lucky[1])
        own = None if clusters is None else clusters[self.samples]
        return add_drop(result, *self.sides, metric, margin, own)


def take(outputs: Outputs, rows: Array | slice) -> Outputs:
    """Return rows of outputs (n, ...), each of them if there are several."""
    return {name: each[rows] for name, each in outputs.items()} if isinstance(outputs, dict) else outputs[rows]


def add_scores(result: AccuracyResult, reference: Array, candidate: Array, metric: ResolvedMetric) -> AccuracyResult:
    """Return `result` with the scores of both sides, their drop, and what one sample weighs in it.

    Parameters
    ----------
    result : with the metric's name, unit and direction.
    reference, candidate : statistics of the metric for the same samples, n rows.

    Raises
    ------
    UsageError : a third party's metric gives no number for these samples.
    """
    try:
        scores = float(metric.aggregate(reference)), float(metric.aggregate(candidate))
    except (ValueError, TypeError, RuntimeError) as error:
        if not metric.costly:
            raise
        raise UsageError(
            f"metric '{metric.name}' gives no score for {len(reference)} samples",
            value=f"{type(error).__name__}: {error}",
            allowed="one number for labels and outputs of all samples",
            fix="set its options with functools.partial, or wrap a callable (outputs, labels) -> one score per sample",
        ) from error
    if not all(math.isfinite(score) for score in scores):
        gave = f"{scores[0]} for the reference and {scores[1]} for the candidate"
        other = "that have something to count" if metric.is_ratio else "of every class"
        return replace(result, note=f"metric '{metric.name}' gave {gave}; next: evaluate samples {other}")
    drop = scores[0] - scores[1] if metric.better == "higher" else scores[1] - scores[0]
    result = replace(result, reference=scores[0], candidate=scores[1], drop=drop)
    if metric.unit == "%":
        largest = _largest_share(reference, candidate) if metric.is_ratio else 1.0 / _different(result, reference)
        result = replace(result, sample_weight=100.0 * largest)
    if metric.rate is not None and _right_and_wrong(reference, candidate, metric.unit):
        return replace(result, sample_weight=metric.rate / _different(result, reference))
    if metric.rate is not None and len(candidate) == result.n:
        result = replace(result, candidate_scores=pack_scores(metric.rate * candidate))
    return result


def add_drop(
    result: AccuracyResult,
    reference: Array,
    candidate: Array,
    metric: ResolvedMetric,
    margin: float | None,
    clusters: Array | None = None,
) -> AccuracyResult:
    """Return `result` as `add_scores` does, with the drop's interval and the samples that would resolve `margin`.

    Parameters
    ----------
    result, reference, candidate : as in `add_scores`, with the confidence of the interval.
    margin : limit on the drop in the metric's unit; ``None`` for no limit.
    clusters : for each row a number that rows which depend on each other share; ``None`` for independent ones.

    Raises
    ------
    UsageError : as in `add_scores`.
    """
    result = add_scores(result, reference, candidate, metric)
    if result.drop is None:
        return result
    sides = reference, candidate
    if metric.rate is not None and _right_and_wrong(*sides, metric.unit):
        result = _right_or_wrong(result, reference != 0, candidate != 0, metric.rate, margin)
        if clusters is None:
            return result
        # The test and its interval are of independent answers.
        result = replace(result, p_value=None)
    units = None if clusters is None else np.unique(clusters, return_inverse=True)[1]
    if units is None and metric.is_ratio:
        units = np.arange(len(reference))
    known = metric.identity and units is None and not reference.dtype.hasobject
    rows = hashlib.sha256(reference.tobytes() + candidate.tobytes()).hexdigest()
    of = metric.identity, metric.better, metric.unit, result.confidence, margin, _different(result, reference), rows
    key = json.dumps(of) if known else ""
    kept = metric.kept(key, lambda: json.dumps(_bootstrap(sides, metric, result, margin, units)))
    note, needed, *ends = json.loads(kept)
    drop_ci, candidate_ci = (end and Interval(*end) for end in ends)
    if clusters is not None:
        groups = len(np.unique(clusters))
        note = (
            note or f"the interval of the drop is over {groups} groups: more of them would narrow it, no more samples"
        )
        needed = None
    return replace(result, note=note, drop_ci=drop_ci, candidate_ci=candidate_ci, n_to_resolve=needed)


def _score_shuffled(metric: ResolvedMetric, pairs: Array, n_different: int | None) -> float:
    """Return the most that (predicted, label) rows score by luck, from a hundred orders of the labels."""
    random = np.random.default_rng(0)
    orders = (np.column_stack([pairs[:, 0], random.permutation(pairs[:, 1])]) for _ in range(100))
    scores = [metric.aggregate(rows) for rows in orders]
    repeated = math.sqrt(len(pairs) / (n_different or len(pairs)))
    return min(100.0, float(np.mean(scores) + SPREADS * repeated * np.std(scores)))


def _different(result: AccuracyResult, rows: Array) -> int:
    """Return how many of the samples of these rows are no copies of others."""
    return min(result.n_different or len(rows), len(rows))


def _largest_share(reference: Array, candidate: Array) -> float:
    """Return the most that one sample is of the sum of the denominators, on either side; of other sums, 1 / n."""
    if reference.ndim != 2 or reference.shape[1] != 2 or reference.dtype.kind != "f":
        return 1.0 / len(reference)
    return max(float(side[:, 1].max() / side[:, 1].sum()) for side in (reference, candidate))


def _right_and_wrong(reference: Array, candidate: Array, unit: str) -> bool:
    """Whether the scores are answers, 0 or 1. Errors in a unit of their own that are all 0 do not say that they are."""
    sides = (reference, candidate)
    answers = all(bool(np.all((side == 0) | (side == 1))) for side in sides)
    return answers and (unit == "%" or any(side.dtype.kind == "b" or bool(np.any(side)) for side in sides))


def _right_or_wrong(
    result: AccuracyResult, reference: Array, candidate: Array, rate: float, margin: float | None
) -> AccuracyResult:
    """Add score interval, exact test and the samples that would resolve the margin, all from 0/1 scores (n,)."""
    n, different = len(reference), _different(result, reference)
    own = wilson_interval(round(float(np.mean(candidate)) * different), different, confidence=result.confidence)
    if result.better == "lower":
        reference, candidate = ~reference, ~candidate
    lost, won = int(np.count_nonzero(reference & ~candidate)), int(np.count_nonzero(candidate & ~reference))
    of_different = lost * different / n, won * different / n
    low, high = tango_interval(*of_different, different, confidence=result.confidence)
    drop = (lost - won) / n
    needed = None
    if margin is not None:
        limit, variance = margin / rate, (lost + won) / n - drop**2
        at_limit = variance_at(lost / n, won / n, limit)
        needed = samples_to_resolve(variance, drop, limit, at_limit=at_limit, confidence=result.confidence)
    whole = n == result.n
    return replace(
        result,
        drop=rate * (lost - won) / n,
        drop_ci=Interval(rate * low, rate * high),
        candidate_ci=Interval(rate * own[0], rate * own[1]),
        p_value=mcnemar_p(*map(round, of_different)),
        discordant=lost + won,
        lost=lost,
        n_to_resolve=needed,
        reference_correct=pack(np.packbits(reference)) if whole else None,
        candidate_correct=pack(np.packbits(candidate)) if whole else None,
    )


def _bootstrap(
    sides: Sides, metric: ResolvedMetric, result: AccuracyResult, margin: float | None, units: Array | None
) -> tuple[str, int | None, Interval | None, Interval | None]:
    """Return a note, the samples that would resolve the margin, and the intervals of the drop and of the candidate.

    `units` (n,) are the clusters of the samples, or the samples themselves; ``None`` for scores that are no sums.
    """
    reference, candidate = sides
    # Errors of a sample may be more than its words.
    is_over = metric.rate is not None and metric.rate * max(np.max(reference), np.max(candidate)) > 100.0
    bounded = metric.unit == "%" and not is_over
    different = _different(result, reference)
    if not bounded and different < FEWEST_UNBOUNDED and units is None:
        return result.note, None, None, None
    # How far scores of single samples lie apart, 0 included; unknown where a sample has none by itself.
    span = 100.0 if bounded else None
    if not bounded and metric.rate is not None:
        span = metric.rate * float(np.ptp(np.concatenate([reference, candidate, [0.0]])))
    # Many that differ show by themselves how far they do.
    weight = 1.0 if units is None else max(0.0, 1.0 - _count_different(*sides, units) / FEWEST_UNBOUNDED)
    better, worse, aggregate = _prepare(metric, *(sides if metric.better == "higher" else sides[::-1]))
    efforts = COSTLY if metric.costly else (USUAL, *COSTLY)

    def drawn(effort: Resampling, weight: float = weight) -> Resampled | None:
        return paired_bootstrap(
            better,
            worse,
            aggregate,
            confidence=result.confidence,
            effort=effort,
            span=span,
            unseen_weight=weight,
            bounded=bounded,
            n_different=different,
            clusters=units,
            each=lambda done: metric.progress(f"bootstrap of {metric.name}, {done} of {effort.resamples} resamples"),
        )

    note, drop = result.note, result.drop or 0.0
    # A third party's warnings were shown when all samples were scored; resamples would repeat them.
    with warnings.catch_warnings(action="ignore"):
        # Another process may interrupt one of the calls.
        score_s = min(timeit.repeat(lambda: aggregate(better), timer=REAL.perf_counter, number=1, repeat=2))
        if metric.prepare is not None:
            # The most resamples that fit into the time, and the fewest at any rate.
            quick = (effort for effort in efforts if effort.lasts_s(score_s, len(better)) <= 15.0)
            efforts = tuple(quick) or efforts[-1:]
        fitting = [effort for effort in (DECIDING, *efforts) if effort.lasts_s(score_s, len(better)) <= MOST_S]
        most = f"of {efforts[0].resamples} resamples of the drop"
        drops = drawn(DECIDING) if metric.costly and margin is not None and fitting else None
        # So far from the limit more resamples do not decide.
        if drops and margin is not None and abs(margin - drop) > 2.0 * max(drops.high - drop, drop - drops.low):
            note = f"{DECIDING.resamples} {most}: max_drop is far from it"
        else:
            drops = drawn(fitting[1]) if fitting[1:] else None
            if len(fitting) <= len(efforts):
                number = fitting[1].resamples if fitting[1:] else 0
                slow = f"one score of '{metric.name}' takes {score_s:.2g} s, all may take {MOST_S:g} s"
                note = f"{number} {most}: {slow}; next: fewer samples"
        if drops and weight < 1.0 and drops.low == drops.high:
            drops = drawn(efforts[-1], 1.0)
    # Of scores that are all 0 nothing says how far another sample's could lie from it.
    if drops is None or drops.low == drops.high:
        return note, None, None, None
    needed = None
    if margin is not None:
        needed = samples_to_resolve(
            drops.variance, drop, margin, span=drops.span, bounded=bounded, confidence=result.confidence
        )
    own = Interval(*drops.sides[1 if metric.better == "higher" else 0])
    reach = 100.0 if bounded and metric.better == "higher" else math.inf
    return note, needed, Interval(max(drops.low, -reach), min(drops.high, reach)), own


def _prepare(metric: ResolvedMetric, better: Array, worse: Array) -> tuple[Array, Array, Callable[[Array], float]]:
    """Return rows of both sides to draw from and the score of such rows; prepared rows are (side, index)."""
    if metric.prepare is None:
        return better, worse, metric.aggregate
    scores, n = (metric.prepare(better), metric.prepare(worse)), len(better)
    better, worse = (np.stack([np.full(n, side), np.arange(n)], axis=1) for side in (0, 1))
    return better, worse, lambda rows: scores[rows[0, 0]](rows[:, 1])


def _count_different(reference: Array, candidate: Array, units: Array) -> int:
    """Return in how many units the two sides have other rows; of rows that cannot be compared, all."""
    if reference.dtype.names and reference.dtype.hasobject:
        return len(np.unique(units))
    differ = (reference != candidate).reshape(len(reference), -1).any(axis=1)
    return len(np.unique(units[differ]))
