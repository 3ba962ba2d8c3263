"""Reference and candidate over one evaluation set. Compares, and never judges."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends import Outputs
from pytest_quant.errors import UsageError, nearest
from pytest_quant.metrics import ResolvedMetric
from pytest_quant.metrics.classes import ClassError
from pytest_quant.metrics.constant import ConstantOutput
from pytest_quant.metrics.faults import check_reference, find_mismatch, find_unsound, sound_rows
from pytest_quant.metrics.scores import Scores
from pytest_quant.metrics.tensor import TensorError
from pytest_quant.result import AccuracyResult, OutputFault


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
    output: str | None,
    margin: float | None = None,
    confidence: float = 0.95,
) -> AccuracyResult:
    """Compare all outputs of `pairs`, and score one of them by `metric`.

    An output that cannot be compared is a fault in the result, and what remains is compared. A sample whose
    output is not finite agrees with nothing and is never right; other scores and KL leave it out of both sides.

    Parameters
    ----------
    metric : ``None`` compares tensors only.
    output : the one that the metric, agreement, KL and worst class read; ``None`` is the first.
    margin : a limit on the drop in the metric's unit; the samples that would resolve it are computed.
    confidence : of the drop's interval.

    Raises
    ------
    ModelError : the reference gives NaN.
    UsageError : there is no such `output`, or the metric does not suit outputs and labels.
    """
    found = _Comparison(metric, output)
    for pair in pairs:
        found.add(pair)
    result = found.result()
    return result if found.scores is None else found.scores.added_to(result, margin, confidence)


class _Comparison:
    """What is accumulated over the pairs: a few numbers of each sample, never its outputs."""

    def __init__(self, metric: ResolvedMetric | None, output: str | None) -> None:
        self.output = output
        self.n = 0
        self.faults: dict[tuple[str, str], OutputFault] = {}
        self.tensors: dict[str, TensorError] = {}
        self.constants: dict[str, ConstantOutput] = {}
        self.classes: ClassError | None = None
        self.scores = None if metric is None else Scores(metric)

    def add(self, pair: OutputPair) -> None:
        """Compare every output of the reference with the candidate's."""
        if self.output is None:
            self.output = next(iter(pair.reference))
        if self.output not in pair.reference:
            raise UsageError(f"the model has no output '{self.output}'", allowed=nearest(self.output, pair.reference))
        self.n += pair.n
        for name, padded in pair.reference.items():
            given = pair.candidate.get(name)
            self._compare(name, _real(padded, pair.n), None if given is None else _real(given, pair.n), pair)

    def _compare(self, name: str, reference: NDArray[Any], candidate: NDArray[Any] | None, pair: OutputPair) -> None:
        check_reference(name, reference, pair.start)
        self._note(find_mismatch(name, reference, candidate, pair.start))
        if candidate is None or candidate.shape != reference.shape:
            return
        sound = sound_rows(reference, candidate)
        self._note(find_unsound(name, candidate, sound, pair.start))
        self.tensors.setdefault(name, TensorError()).add(reference, candidate, pair.start)
        self.constants.setdefault(name, ConstantOutput()).add(reference, candidate)
        if name == self.output:
            self._score(reference, candidate, sound, pair)

    def _note(self, fault: OutputFault | None) -> None:
        if fault is not None:
            self.faults.setdefault((fault.output, fault.kind), fault)

    def _score(self, reference: NDArray[Any], candidate: NDArray[Any], sound: NDArray[Any], pair: OutputPair) -> None:
        labels = None if pair.labels is None else pair.labels[: pair.n]
        may_be_classes = labels is None or labels.dtype.kind in "iubO"
        if reference.ndim == 2 and reference.shape[1] > 1 and reference.dtype.kind == "f" and may_be_classes:
            self.classes = self.classes or ClassError(reference.shape[1])
            self.classes.add(reference, candidate, _indices(labels), sound)
        if self.scores is not None and labels is not None:
            self.scores.add(reference, candidate, labels, sound, pair.start)

    def result(self) -> AccuracyResult:
        """Return everything but the scores."""
        classes = self.classes
        compared = tuple(
            found.of(name, reference_constant=self.constants[name].reference_constant)
            for name, found in self.tensors.items()
            if found.equal is not None
        )
        for name, found in self.constants.items():
            self._note(found.fault(name))
        # Text has no figures, and what is identical is not the worst.
        apart = [one for one in compared if one.max_abs_error is not None and not one.identical] or compared
        worst = min(apart, key=lambda one: _or_least(one.sqnr_db), default=None)
        farthest = max(apart, key=lambda one: _or_least(one.max_abs_error), default=None)
        return AccuracyResult(
            n=self.n,
            agreement_pct=None if classes is None else classes.agreement_pct,
            sqnr_db=None if worst is None else worst.sqnr_db,
            cosine=min((one.cosine for one in apart), key=_or_least, default=None),
            max_abs_error=None if farthest is None else farthest.max_abs_error,
            max_abs_error_sample=None if farthest is None else farthest.sample,
            by_output=compared,
            worst_output=None if worst is None or worst.identical else worst.name,
            kl=None if classes is None else classes.kl,
            worst_class=None if classes is None else classes.worst_class,
            faults=tuple(self.faults.values()),
            identical=bool(compared) and all(one.identical for one in compared) and not self.faults,
        )


def _or_least(figure: float | None) -> float:
    """Order a figure that an output does not have, which tells less than any, before all others."""
    return -math.inf if figure is None else figure


def _real(array: NDArray[Any], n: int) -> NDArray[Any]:
    """Rows of the real samples, without the padding; an output without a sample axis stays what it is."""
    return array[:n] if array.ndim else array


def _indices(labels: NDArray[Any] | None) -> NDArray[Any] | None:
    """Integer labels (n,) or (n, 1) as (n,); ``None`` where a sample has several, or objects."""
    if labels is None or labels.dtype.kind == "O" or labels.size != len(labels):
        return None
    return labels.reshape(-1).astype(np.int64)
