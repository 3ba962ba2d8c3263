"""Early stop of an evaluation: samples in random order until confidence sequences decide every limit on a score.

The order is a fixed function of the number of samples, so that two commits evaluate the same samples first and can be
paired on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data import Data
from pytest_quant.metrics import ResolvedMetric
from pytest_quant.result import AccuracyResult, Interval
from pytest_quant.spec import Check, limits_on
from pytest_quant.stats.confidence_sequence import Bounded, ConfidenceSequence

Array = NDArray[Any]

_DECIDED = {"max_drop": "drop", "min_agreement": "agreement", "min_accuracy": "reference"}
"""The limits that a sequence can decide, and the outcome of single samples that they are about."""

_BOUNDS = {"drop": (-1.0, 1.0), "agreement": (0.0, 1.0), "reference": (0.0, 1.0)}
_WHOLE_PCT = 100.0
_LOOKS = 100
"""About so many times a set is looked at, if nothing stops its evaluation."""


@dataclass(frozen=True, slots=True)
class Early:
    """All evaluation samples in random order, and what stops their evaluation.

    Attributes
    ----------
    data : the samples in that order.
    order : index in the evaluation set of each of them, (n,).
    limits : by `drop`, `agreement` and `reference`, as shares.
    rate : unit of the metric for a share of 1.
    confidence : of each sequence, 0..1.
    finite : the drop on this set is asked for, and not that of all samples there could be.
    """

    data: Data
    order: Array
    limits: Mapping[str, float]
    rate: float
    better: str
    confidence: float
    finite: bool

    @property
    def chunk(self) -> int:
        """Samples between two looks."""
        return max(1, len(self.order) // _LOOKS)

    def sequences(self) -> Sequences:
        """Return new sequences for one pass."""
        return Sequences(self)


def plan_early(check: Check, data: Data, metric: ResolvedMetric | None) -> Early | str:
    """Return how to stop early, or why all samples are evaluated; an empty text where that was not asked for.

    Parameters
    ----------
    check : its limits, and whether to stop early.
    data : the evaluation set.
    metric : of the check; ``None`` without one.
    """
    if not check.sequential:
        return ""
    asked = [
        name
        for name in limits_on("score", "reference", "accuracy", "output")
        if getattr(check.limits, name) is not None
    ]
    asked += ["max_drop_increase"] if check.limits.max_drop_increase is not None else []
    others = [name for name in dict.fromkeys(asked) if name not in _DECIDED]
    if others:
        return f"{others[0]} needs all of them"
    if not asked:
        return "no limit on accuracy is set"
    on_scores = [name for name in asked if name != "min_agreement"]
    rate = _WHOLE_PCT if metric is None or metric.rate is None else metric.rate
    if on_scores and (metric is None or not _is_bounded(metric)):
        return f"scores of {'no metric' if metric is None else metric.name} have no bounds"
    if "min_accuracy" in asked and metric is not None and metric.better == "lower":
        return "min_accuracy limits an error"
    order = random_order(data.n)
    drawn = data.drawn(order)
    if drawn is None:
        return f"{data.name} gives its samples in their own order only"
    return Early(
        data=drawn,
        order=order,
        limits={
            _DECIDED[name]: getattr(check.limits, name) / (_WHOLE_PCT if name == "min_agreement" else rate)
            for name in asked
        },
        rate=rate,
        better="higher" if metric is None else metric.better,
        confidence=check.confidence or 0.95,
        finite=check.confidence is None,
    )


def _is_bounded(metric: ResolvedMetric) -> bool:
    """Whether each sample's score is a share: right or wrong, or of a metric in percent that is the mean of shares."""
    return metric.rate is not None and (metric.reads_classes or (metric.unit == "%" and metric.rate == _WHOLE_PCT))


def random_order(n: int) -> Array:
    """Return the indices below `n` in the order in which they are evaluated, always the same one.

    They are sorted by SplitMix64 of the index (Steele, Lea and Flood 2014), which no version of a library changes.
    """
    with np.errstate(over="ignore"):
        mixed = (np.arange(n, dtype=np.uint64) + np.uint64(n)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.argsort(mixed ^ (mixed >> np.uint64(31)), kind="stable")


class Sequences:
    """One confidence sequence for the drop, one for agreement and one for the reference's score."""

    def __init__(self, early: Early) -> None:
        self._early = early
        population = len(early.order) if early.finite else None
        self._sequences = {
            name: ConfidenceSequence(Bounded(*bounds, population), early.confidence) for name, bounds in _BOUNDS.items()
        }
        self._n = 0

    def add(self, n: int, scores: tuple[Array, Array] | None, agreed: Array | None) -> None:
        """Add the next samples.

        Parameters
        ----------
        n : number of samples.
        scores : of reference and candidate, before the metric's rate, (n,) each; ``None`` without a metric.
        agreed : mask (n,) of the samples with the same class; ``None`` where outputs are no scores of classes.
        """
        self._n += n
        if scores is not None:
            reference, candidate = (np.asarray(side, dtype=np.float64) for side in scores)
            if all(np.all((side >= 0.0) & (side <= 1.0)) for side in (reference, candidate)):
                worse = reference - candidate if self._early.better == "higher" else candidate - reference
                self._sequences["drop"].add(worse)
                self._sequences["reference"].add(reference)
        if agreed is not None:
            self._sequences["agreement"].add(agreed)

    @property
    def decided(self) -> bool:
        """Whether every limit is decided; one is not where the outcome of a sample was left out or had no bounds."""
        limits = self._early.limits
        complete = all(self._sequences[name].n == self._n for name in limits)
        return complete and all(self._is_decided(name, limit) for name, limit in limits.items())

    def _is_decided(self, name: str, limit: float) -> bool:
        sequence = self._sequences[name]
        if not sequence.excludes(limit):
            return False
        low, high = sequence.interval()
        return not low <= limit <= high

    def added_to(self, result: AccuracyResult) -> AccuracyResult:
        """Return `result` with the intervals of the sequences, in place of those that hold for a fixed number only.

        All samples of a set are a fact, of which the result is left as it is, unless all there could be are asked for.
        """
        n = len(self._early.order)
        if self._n == n and self._early.finite:
            return result
        rates = {"drop": self._early.rate, "agreement": _WHOLE_PCT, "reference": self._early.rate}
        spans = {
            name: Interval(*(rates[name] * end for end in sequence.interval()))
            for name, sequence in self._sequences.items()
            if sequence.n == self._n
        }
        return replace(
            result,
            drop_ci=spans.get("drop"),
            agreement_ci=spans.get("agreement"),
            reference_ci=spans.get("reference"),
            p_value=None,
            n_to_resolve=None,
            of_samples=n if self._n < n else None,
        )


def in_the_set(result: AccuracyResult, order: Array) -> AccuracyResult:
    """Return `result` with the indices of samples in the evaluation set, in place of those in random order."""

    def place(index: int | None) -> int | None:
        return None if index is None else int(order[index])

    return replace(
        result,
        faults=tuple(replace(one, sample=int(order[one.sample])) for one in result.faults),
        by_output=tuple(replace(one, sample=place(one.sample)) for one in result.by_output),
        max_abs_error_sample=place(result.max_abs_error_sample),
    )
