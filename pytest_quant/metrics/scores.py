"""The score of reference and candidate by one task metric: statistics kept per sample, then drop and interval."""

from __future__ import annotations

import base64
import math
import warnings
import zlib
from dataclasses import replace

import numpy as np

from pytest_quant.errors import UsageError
from pytest_quant.metrics.metric import Array, ResolvedMetric
from pytest_quant.result import AccuracyResult, Interval
from pytest_quant.stats.bootstrap import COSTLY_RESAMPLES, COSTLY_SAMPLES, RESAMPLES, SAMPLES, paired_bootstrap
from pytest_quant.stats.paired import mcnemar_p, tango_interval
from pytest_quant.stats.power import samples_to_resolve


class Scores:
    """Keeps what `metric` needs of each sample: a few numbers, or all of it for a third party's whole-set score."""

    def __init__(self, metric: ResolvedMetric) -> None:
        self._metric = metric
        self._reference: list[Array] = []
        self._candidate: list[Array] = []
        self._classes: int | None = None

    def add(self, reference: Array, candidate: Array, labels: Array, sound: Array, start: int) -> None:
        """Score one chunk of outputs (n, ...) from sample index `start`.

        Samples that are not `sound` (n,) are wrong for a metric of right and wrong, and left out of any other.

        Raises
        ------
        UsageError : the metric gives NaN or Inf for a sample; the message names it.
        """
        self._classes = reference.shape[1] if reference.ndim == 2 else None
        whole = bool(sound.all())
        if whole or not self._scores_wrong():
            rows = np.flatnonzero(sound)
            chosen = slice(None) if whole else rows
            if len(rows):
                for kept, outputs in ((self._reference, reference), (self._candidate, candidate)):
                    kept.append(self._statistics(outputs[chosen], labels[chosen], start + rows))
            return
        right = np.zeros(len(reference), dtype=bool)
        right[sound] = self._metric.statistics(candidate[sound], labels[sound])
        self._reference.append(self._metric.statistics(reference, labels))
        self._candidate.append(right)

    def _scores_wrong(self) -> bool:
        """Whether a sample that cannot be compared has a score all the same, because it is not right."""
        return self._metric.reads_classes and self._metric.rate is not None

    def _statistics(self, outputs: Array, labels: Array, samples: Array) -> Array:
        """Statistics of finite outputs; `samples` (n,) are their indices in the set."""
        found = self._metric.statistics(outputs, labels)
        if self._metric.rate is not None and found.dtype.kind == "f" and not np.isfinite(found).all():
            row = int(np.argmin(np.isfinite(found)))
            raise UsageError(
                f"metric '{self._metric.name}' must give a finite score for every sample",
                value=f"{found[row]} for sample {int(samples[row])}",
                fix="give the score of such a sample its worst value, or leave the sample out of the data",
            )
        return found

    def added_to(self, result: AccuracyResult, margin: float | None, confidence: float) -> AccuracyResult:
        """Return `result` with scores, drop, interval and, for a `margin`, the samples that would resolve it."""
        metric = self._metric
        result = replace(result, metric=metric.name, unit=metric.unit, better=metric.better, confidence=confidence)
        if metric.answers is not None and metric.rate is not None and self._classes:
            result = replace(result, chance=metric.rate * metric.answers / self._classes)
        if not self._reference:
            return result
        reference, candidate = np.concatenate(self._reference), np.concatenate(self._candidate)
        scores = _score(metric, reference), _score(metric, candidate)
        if not all(math.isfinite(score) for score in scores):
            return result
        drop = scores[0] - scores[1] if metric.better == "higher" else scores[1] - scores[0]
        result = replace(result, reference=scores[0], candidate=scores[1], drop=drop)
        if metric.rate is not None and _only_0_and_1(reference) and _only_0_and_1(candidate):
            return _right_or_wrong(result, reference != 0, candidate != 0, metric.rate, margin)
        return _resampled(result, reference, candidate, metric, margin)


def _score(metric: ResolvedMetric, statistics: Array) -> float:
    """Score of all samples; a third party that refuses them, or gives more than one number, is a `UsageError`."""
    if not metric.costly:
        return float(metric.aggregate(statistics))
    try:
        return float(metric.aggregate(statistics))
    except (ValueError, TypeError, RuntimeError) as error:
        raise UsageError(
            f"metric '{metric.name}' gives no score for {len(statistics)} samples",
            value=f"{type(error).__name__}: {error}",
            allowed="one number for labels and outputs of all samples",
            fix="set its options with functools.partial, or wrap a callable (outputs, labels) -> one score per sample",
        ) from error


def _only_0_and_1(numbers: Array) -> bool:
    return numbers.dtype.kind == "b" or bool(np.all((numbers == 0) | (numbers == 1)))


def _right_or_wrong(
    result: AccuracyResult, reference: Array, candidate: Array, rate: float, margin: float | None
) -> AccuracyResult:
    """Add what 0/1 scores (n,) allow: score interval, exact test, samples that would resolve the margin."""
    if result.better == "lower":
        reference, candidate = ~reference, ~candidate
    n = len(reference)
    lost, won = int(np.count_nonzero(reference & ~candidate)), int(np.count_nonzero(candidate & ~reference))
    low, high = tango_interval(lost, won, n, confidence=result.confidence)
    drop = (lost - won) / n
    needed = None
    if margin is not None:
        needed = samples_to_resolve((lost + won) / n - drop**2, drop, margin / rate, confidence=result.confidence)
    whole = n == result.n
    return replace(
        result,
        drop=rate * (lost - won) / n,
        drop_ci=Interval(rate * low, rate * high),
        p_value=mcnemar_p(lost, won),
        discordant=lost + won,
        n_to_resolve=needed,
        reference_correct=_packed(reference) if whole else None,
        candidate_correct=_packed(candidate) if whole else None,
    )


def _resampled(
    result: AccuracyResult, reference: Array, candidate: Array, metric: ResolvedMetric, margin: float | None
) -> AccuracyResult:
    """Add the interval of the paired bootstrap, and the samples that would resolve the margin by its variance."""
    better, worse = (reference, candidate) if metric.better == "higher" else (candidate, reference)
    with warnings.catch_warnings():
        # What a third party has to say about the samples, it said about all of them; not again of every draw.
        warnings.simplefilter("ignore")
        found = paired_bootstrap(
            better,
            worse,
            metric.aggregate,
            confidence=result.confidence,
            resamples=COSTLY_RESAMPLES if metric.costly else RESAMPLES,
            most_samples=COSTLY_SAMPLES if metric.costly else SAMPLES,
        )
    if found is None:
        return result
    needed = None
    if margin is not None and result.drop is not None:
        needed = samples_to_resolve(found.variance, result.drop, margin, confidence=result.confidence)
    return replace(result, drop_ci=Interval(found.low, found.high), n_to_resolve=needed)


def _packed(right: Array) -> str:
    return base64.b64encode(zlib.compress(np.packbits(right).tobytes())).decode("ascii")
