"""Reference and candidate over one evaluation set. Compares, and never judges."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends import Outputs
from pytest_quant.metrics import ResolvedMetric
from pytest_quant.metrics.classes import ClassError
from pytest_quant.metrics.faults import find_fault, finite_rows
from pytest_quant.metrics.tensor import TensorError
from pytest_quant.result import AccuracyResult, Interval, OutputFault
from pytest_quant.stats.bootstrap import COSTLY_RESAMPLES, RESAMPLES, paired_bootstrap
from pytest_quant.stats.paired import mcnemar_p, tango_interval
from pytest_quant.stats.power import samples_to_resolve

_PERCENT = 100.0


@dataclass(frozen=True, slots=True)
class OutputPair:
    """Outputs of both engines for `n` samples from index `start`; arrays may be padded beyond `n`."""

    reference: Outputs
    candidate: Outputs
    labels: NDArray[Any] | None
    start: int
    n: int


def evaluate(
    pairs: Iterable[OutputPair],
    metric: ResolvedMetric | None,
    *,
    output: str,
    margin: float | None = None,
    confidence: float = 0.95,
) -> AccuracyResult:
    """Compare all outputs of `pairs`, and score `output` by `metric`.

    Parameters
    ----------
    metric : ``None`` compares tensors only.
    margin : a limit on the drop in the metric's unit; the samples that would resolve it are computed.
    confidence : of the drop's interval.

    Raises
    ------
    ModelError : the reference gives NaN.
    """
    found = _Comparison(metric, output)
    for pair in pairs:
        found.add(pair)
    return _with_scores(found.result(), found, margin, confidence)


class _Comparison:
    """What is accumulated over the pairs: a few numbers of each sample, never its outputs."""

    def __init__(self, metric: ResolvedMetric | None, output: str) -> None:
        self.metric = metric
        self.output = output
        self.n = 0
        self.faults: dict[tuple[str, str], OutputFault] = {}
        self.tensors = TensorError()
        self.classes: ClassError | None = None
        self.statistics: tuple[list[NDArray[Any]], list[NDArray[Any]]] = ([], [])

    def add(self, pair: OutputPair) -> None:
        """Compare every output of the reference with the candidate's."""
        self.n += pair.n
        labels = None if pair.labels is None else pair.labels[: pair.n]
        for name, padded in pair.reference.items():
            reference = padded[: pair.n]
            given = pair.candidate.get(name)
            candidate = None if given is None else given[: pair.n]
            fault = find_fault(name, reference, candidate, pair.start)
            if fault is not None:
                self.faults.setdefault((name, fault.kind), fault)
            if candidate is None or candidate.shape != reference.shape:
                continue
            kept = finite_rows(reference, candidate)
            if kept.all():
                self.tensors.add(reference, candidate, pair.start)
            else:
                for row in np.flatnonzero(kept):
                    self.tensors.add(reference[row : row + 1], candidate[row : row + 1], pair.start + int(row))
            if name == self.output:
                self._score(reference, candidate, labels)

    def _score(self, reference: NDArray[Any], candidate: NDArray[Any], labels: NDArray[Any] | None) -> None:
        has_classes = labels is None or np.issubdtype(labels.dtype, np.integer)
        if reference.ndim == 2 and reference.shape[1] > 1 and has_classes:
            self.classes = self.classes or ClassError(reference.shape[1])
            known = labels if self.metric is not None and self.metric.reads_classes else None
            self.classes.add(reference, candidate, known)
        if self.metric is not None and labels is not None:
            for kept, outputs in zip(self.statistics, (reference, candidate), strict=True):
                kept.append(self.metric.statistics(outputs, labels))

    def result(self) -> AccuracyResult:
        """Return everything but the scores."""
        classes = self.classes
        sound = classes is not None and not self.faults
        return AccuracyResult(
            n=self.n,
            agreement_pct=None if classes is None else classes.agreement_pct,
            sqnr_db=self.tensors.sqnr_db,
            cosine=self.tensors.cosine,
            max_abs_error=self.tensors.max_abs_error,
            max_abs_error_sample=self.tensors.sample,
            kl=classes.kl if classes is not None and sound else None,
            worst_class=None if classes is None else classes.worst_class,
            faults=tuple(self.faults.values()),
            identical=self.tensors.identical and not self.faults,
        )


def _with_scores(result: AccuracyResult, found: _Comparison, margin: float | None, confidence: float) -> AccuracyResult:
    metric = found.metric
    if metric is None or not found.statistics[0]:
        return result
    reference, candidate = (np.concatenate(kept) for kept in found.statistics)
    scores = metric.aggregate(reference), metric.aggregate(candidate)
    if not all(math.isfinite(score) for score in scores):
        return replace(result, metric=metric.name, unit=metric.unit, better=metric.better)
    sign = 1.0 if metric.better == "higher" else -1.0
    scored = replace(
        result,
        metric=metric.name,
        unit=metric.unit,
        better=metric.better,
        reference=scores[0],
        candidate=scores[1],
        drop=sign * (scores[0] - scores[1]),
        confidence=confidence,
    )
    if metric.binary:
        return _right_or_wrong(scored, reference, candidate, margin)
    resamples = COSTLY_RESAMPLES if metric.costly else RESAMPLES
    span = paired_bootstrap(reference, candidate, metric.aggregate, confidence=confidence, resamples=resamples)
    if span is None:
        return scored
    low, high = sorted(sign * end for end in span)
    return replace(scored, drop_ci=Interval(low, high))


def _right_or_wrong(
    scored: AccuracyResult, reference: NDArray[Any], candidate: NDArray[Any], margin: float | None
) -> AccuracyResult:
    """Add what 0/1 scores allow: score interval, exact test, samples that would resolve the margin."""
    n = len(reference)
    lost, won = int(np.count_nonzero(reference & ~candidate)), int(np.count_nonzero(candidate & ~reference))
    low, high = tango_interval(lost, won, n, confidence=scored.confidence)
    drop = (lost - won) / n
    needed = None
    if margin is not None:
        needed = samples_to_resolve((lost + won) / n - drop**2, drop, margin / _PERCENT, confidence=scored.confidence)
    return replace(
        scored,
        drop=_PERCENT * drop,
        drop_ci=Interval(_PERCENT * low, _PERCENT * high),
        p_value=mcnemar_p(lost, won),
        discordant=lost + won,
        n_to_resolve=needed,
        reference_correct=_packed(reference),
        candidate_correct=_packed(candidate),
    )


def _packed(right: NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(np.packbits(right).tobytes(), level=9)).decode("ascii")
