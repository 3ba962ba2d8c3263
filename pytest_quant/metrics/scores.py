"""Scores of reference and candidate by one task metric, with agreement, divergence and a classifier's worst class."""

from __future__ import annotations

import base64
import math
import warnings
import zlib
from dataclasses import replace

import numpy as np

from pytest_quant.errors import UsageError
from pytest_quant.metrics.metric import Array, ResolvedMetric
from pytest_quant.result import AccuracyResult, ClassScore, Interval, WorstClass
from pytest_quant.stats.bootstrap import COSTLY, USUAL, paired_bootstrap
from pytest_quant.stats.paired import mcnemar_p, samples_to_resolve, tango_interval, variance_at

_WHOLE_PCT = 100.0

MOST_SCORES = 10_000
"""Of larger sets no scores of single samples are kept, since they would take more than 53 kB of every record."""

FEWEST_UNBOUNDED = 10
"""Samples from which a score without a largest value has an interval: what fewer show says little about the next."""


class Scores:
    """Accumulates a metric's statistics: a few numbers per sample, or whole samples for a third party's metric.

    `last` holds those of reference and candidate of the samples that were added last, ``None`` where none has any.
    """

    def __init__(self, metric: ResolvedMetric) -> None:
        self._metric = metric
        self._reference: list[Array] = []
        self._candidate: list[Array] = []
        self._classes: int | None = None
        self.last: tuple[Array, Array] | None = None

    def add(self, reference: Array, candidate: Array, labels: Array, sound: Array, start: int) -> None:
        """Score one chunk of consecutive samples.

        Parameters
        ----------
        reference, candidate : outputs (n, ...) of one shape.
        labels : (n, ...), or objects (n,).
        sound : mask (n,) of the samples whose outputs can be compared; the others count as wrong for a metric of right
            and wrong, and are left out of any other.
        start : index of the first sample in the set, for messages.

        Raises
        ------
        UsageError : the metric gives NaN or Inf for a sample.
        """
        self._classes = reference.shape[1] if reference.ndim == 2 else None
        before = len(self._reference)
        self._add(reference, candidate, labels, sound, start)
        added = len(self._reference) > before
        self.last = (self._reference[-1], self._candidate[-1]) if added else None

    def _add(self, reference: Array, candidate: Array, labels: Array, sound: Array, start: int) -> None:
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
        """Whether a sample that cannot be compared has a score, because it counts as wrong."""
        return self._metric.reads_classes and self._metric.rate is not None

    def _statistics(self, outputs: Array, labels: Array, samples: Array) -> Array:
        """Return the statistics of finite outputs; `samples` (n,) are their indices in the set."""
        statistics = self._metric.statistics(outputs, labels)
        if self._metric.rate is not None and statistics.dtype.kind == "f" and not np.isfinite(statistics).all():
            row = int(np.argmin(np.isfinite(statistics)))
            raise UsageError(
                f"metric '{self._metric.name}' must give a finite score for every sample",
                value=f"{statistics[row]} for sample {int(samples[row])}",
                fix="give the score of such a sample its worst value, or leave the sample out of the data",
            )
        return statistics

    def added_to(
        self, result: AccuracyResult, margin: float | None, confidence: float, order: Array | None = None
    ) -> AccuracyResult:
        """Return `result` with the scores of both engines.

        Parameters
        ----------
        result : figures that need no metric.
        margin : limit on the drop in the metric's unit, for which the samples needed to decide it are computed;
            ``None`` for no limit.
        confidence : of the drop's interval, 0..1.
        order : index in the set of each sample in the order in which all of them were added; ``None`` for their own.

        Raises
        ------
        UsageError : a third party's metric gives no number for these samples.
        """
        metric = self._metric
        result = replace(result, metric=metric.name, unit=metric.unit, better=metric.better, confidence=confidence)
        if metric.answers is not None and metric.rate is not None and self._classes:
            result = replace(result, chance=metric.rate * metric.answers / self._classes)
        if not self._reference:
            return result
        reference, candidate = np.concatenate(self._reference), np.concatenate(self._candidate)
        if order is not None and len(order) == len(reference):
            places = np.argsort(order)
            reference, candidate = reference[places], candidate[places]
        scores = _score(metric, reference), _score(metric, candidate)
        if not all(math.isfinite(score) for score in scores):
            return result
        drop = scores[0] - scores[1] if metric.better == "higher" else scores[1] - scores[0]
        result = replace(result, reference=scores[0], candidate=scores[1], drop=drop)
        if metric.unit == "%":
            result = replace(result, sample_weight=_WHOLE_PCT / len(reference))
        if metric.rate is not None and _right_and_wrong(reference, candidate, metric.unit):
            result = replace(result, sample_weight=metric.rate / len(reference))
            return _right_or_wrong(result, reference != 0, candidate != 0, metric.rate, margin)
        if metric.rate is not None and len(candidate) == result.n:
            result = replace(result, candidate_scores=_packed_scores(metric.rate * candidate))
        return _resampled(result, reference, candidate, metric, margin)


def _score(metric: ResolvedMetric, statistics: Array) -> float:
    """Return the score of all samples. Raises `UsageError` when a third party's metric gives no number for them."""
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


def _right_and_wrong(reference: Array, candidate: Array, unit: str) -> bool:
    """Whether the scores are answers, 0 or 1. Errors in a unit of their own that are all 0 do not say that they are."""
    sides = (reference, candidate)
    if all(side.dtype.kind == "b" for side in sides):
        return True
    answers = all(bool(np.all((side == 0) | (side == 1))) for side in sides)
    return answers and (unit == "%" or any(bool(np.any(side)) for side in sides))


def _right_or_wrong(
    result: AccuracyResult, reference: Array, candidate: Array, rate: float, margin: float | None
) -> AccuracyResult:
    """Add score interval, exact test and the samples that would resolve the margin, all from 0/1 scores (n,)."""
    if result.better == "lower":
        reference, candidate = ~reference, ~candidate
    n = len(reference)
    lost, won = int(np.count_nonzero(reference & ~candidate)), int(np.count_nonzero(candidate & ~reference))
    low, high = tango_interval(lost, won, n, confidence=result.confidence)
    drop = (lost - won) / n
    needed = None
    if margin is not None:
        limit = margin / rate
        needed = samples_to_resolve(
            (lost + won) / n - drop**2,
            drop,
            limit,
            at_limit=variance_at(lost / n, won / n, limit),
            confidence=result.confidence,
        )
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
    bounded = metric.unit == "%"
    if not bounded and len(reference) < FEWEST_UNBOUNDED:
        return result
    better, worse = (reference, candidate) if metric.better == "higher" else (candidate, reference)
    with warnings.catch_warnings():
        # A third party's warnings were shown when all samples were scored; resamples would repeat them.
        warnings.simplefilter("ignore")
        found = paired_bootstrap(
            better,
            worse,
            metric.aggregate,
            confidence=result.confidence,
            effort=COSTLY if metric.costly else USUAL,
            span=_WHOLE_PCT if bounded else _span(reference, candidate, metric),
            bounded=bounded,
        )
    # Of scores that are all 0 nothing says how far another sample's could lie from it.
    if found is None or found.low == found.high:
        return result
    needed = None
    if margin is not None and result.drop is not None:
        needed = samples_to_resolve(
            found.variance, result.drop, margin, span=found.span, bounded=bounded, confidence=result.confidence
        )
    return replace(result, drop_ci=Interval(found.low, found.high), n_to_resolve=needed)


def _span(reference: Array, candidate: Array, metric: ResolvedMetric) -> float | None:
    """Return how far the scores of single samples lie apart, 0 included; ``None`` where a sample has none by itself."""
    if metric.rate is None:
        return None
    seen = np.concatenate([reference, candidate, [0.0]])
    return metric.rate * float(seen.max() - seen.min())


def _packed(right: Array) -> str:
    return base64.b64encode(zlib.compress(np.packbits(right).tobytes())).decode("ascii")


def _packed_scores(scores: Array) -> str | None:
    """Return scores (n,) as a record keeps them; ``None`` for too many, or where float32 has no such numbers."""
    if len(scores) > MOST_SCORES:
        return None
    with np.errstate(over="ignore"):
        kept = scores.astype("<f4")
    if not np.isfinite(kept).all():
        return None
    return base64.b64encode(zlib.compress(kept.tobytes())).decode("ascii")


_SMALLEST = 1e-12
"""Stands for a probability of 0, whose logarithm would make every divergence infinite."""


MOST_CLASSES = 1000
"""With samples, that are kept one by one: they take 4 kB of a record."""

_CLASS_DECIMALS = 4
"""More would take more room and say nothing: with them each count of up to a million samples is told apart."""


class ClassError:
    """Accumulates agreement, divergence and right answers by class over a set; `agreed` (n,) are those added last."""

    def __init__(self, classes: int) -> None:
        self._n = self._agree = 0
        self._divergence = 0.0
        self._diverging = 0
        self._are_probabilities: bool | None = None
        self._counts = np.zeros((3, classes), dtype=np.int64)
        self._indices = True
        self.agreed: Array = np.zeros(0, dtype=bool)

    def add(self, reference: Array, candidate: Array, labels: Array | None, sound: Array) -> None:
        """Add a chunk of samples.

        Parameters
        ----------
        reference, candidate : outputs (n, classes).
        labels : class indices (n,), or ``None``. A label outside 0..classes - 1 means that they are no indices; then
            there is no worst class.
        sound : mask (n,) of the samples whose outputs can be compared; the others never agree and are never right.
        """
        r_class, c_class = np.argmax(reference, axis=1), np.argmax(candidate, axis=1)
        self._n += len(reference)
        self.agreed = (r_class == c_class) & sound
        self._agree += int(np.count_nonzero(self.agreed))
        if self._are_probabilities is None:
            self._are_probabilities = _probabilities(reference)
        if self._are_probabilities:
            rows = _divergences_of_probabilities(reference, candidate)
        else:
            rows = _divergences_of_scores(reference, candidate, r_class, c_class)
        rows = rows[sound & np.isfinite(rows)]
        self._divergence += float(np.sum(rows))
        self._diverging += len(rows)
        if labels is not None and len(labels):
            self._count(labels, r_class == labels, (c_class == labels) & sound)

    def _count(self, labels: Array, r_right: Array, c_right: Array) -> None:
        classes = self._counts.shape[1]
        self._indices = self._indices and int(labels.min()) >= 0 and int(labels.max()) < classes
        if self._indices:
            for row, chosen in enumerate((labels, labels[r_right], labels[c_right])):
                self._counts[row] += np.bincount(chosen, minlength=classes)

    @property
    def agreement_pct(self) -> float:
        """Share of samples with the same top-1 class, 0..100."""
        return 100.0 * self._agree / self._n

    @property
    def kl(self) -> float | None:
        """Mean KL(reference || candidate) in nats, >= 0, over the samples that can be compared.

        It is computed from the softmax of the outputs, or from the outputs themselves when the first chunk of the
        reference's are probabilities: not negative, each row summing to 1. Probabilities below 1e-12 count as 1e-12.
        """
        return max(0.0, self._divergence / self._diverging) if self._diverging else None

    @property
    def worst_class(self) -> WorstClass | None:
        """The class whose accuracy fell most, the first of equal ones; ``None`` when none fell."""
        if not self._indices:
            return None
        n, reference, candidate = self._counts
        lost = np.divide(reference - candidate, n, out=np.zeros(len(n)), where=n > 0)
        label = int(np.argmax(lost))
        if lost[label] <= 0.0:
            return None
        size = int(n[label])
        return WorstClass(label, size, 100.0 * int(reference[label]) / size, 100.0 * int(candidate[label]) / size)

    @property
    def by_class(self) -> tuple[ClassScore, ...]:
        """Each class with samples, by its label; empty without labels, and where more than `MOST_CLASSES` have any."""
        seen = np.flatnonzero(self._counts[0])
        if not self._indices or len(seen) > MOST_CLASSES:
            return ()
        n = self._counts[0, seen]
        shares = np.round(100.0 * self._counts[1:, seen] / n, _CLASS_DECIMALS)
        return tuple(map(ClassScore, seen.tolist(), n.tolist(), *shares.tolist()))


def _probabilities(outputs: Array) -> bool:
    return bool(np.all(outputs >= 0) and np.allclose(np.sum(outputs, axis=1), 1.0, atol=1e-3))


def _divergences_of_probabilities(reference: Array, candidate: Array) -> Array:
    """Return the KL of each row (n,) in nats; not finite where a row is not."""
    r, c = (np.maximum(side, _SMALLEST, dtype=np.float64) for side in (reference, candidate))
    return np.asarray(np.einsum("ij,ij->i", r, np.log(r) - np.log(c)))


def _divergences_of_scores(reference: Array, candidate: Array, r_class: Array, c_class: Array) -> Array:
    """Return the KL between the softmax of each row (n,) in nats; not finite where a row is not.

    `r_class` and `c_class` (n,) are the indices of each row's largest score.
    """
    with np.errstate(invalid="ignore"):
        r, c = _below_largest(reference, r_class), _below_largest(candidate, c_class)
        distance = r - c
        # In place: new memory costs as much as the exponentials.
        share, other_share = np.exp(r, out=r), np.exp(c, out=c)
        distance[share == 0.0] = 0.0
        total, other_total = np.einsum("ij->i", share), np.einsum("ij->i", other_share)
        return np.asarray(np.einsum("ij,ij->i", share, distance) / total + np.log(other_total / total))


def _below_largest(scores: Array, largest: Array) -> Array:
    """Return scores (n, classes) less each row's value at index `largest` (n,), so that no exponential overflows."""
    scores = scores.astype(np.float64)
    scores -= scores[np.arange(len(scores)), largest][:, None]
    return scores
