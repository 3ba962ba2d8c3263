"""What a classifier's outputs (n, classes) say beside their score: agreement, divergence, the class that lost most."""

from __future__ import annotations

import numpy as np

from pytest_quant.metrics.metric import Array
from pytest_quant.result import WorstClass

_SMALLEST = 1e-12
"""Stands for a probability of 0, whose logarithm would make every divergence infinite."""


class ClassError:
    """Accumulates agreement, divergence and right answers by class over a set."""

    def __init__(self, classes: int) -> None:
        self._n = self._agree = 0
        self._divergence = 0.0
        self._are_probabilities: bool | None = None
        self._counts = np.zeros((3, classes), dtype=np.int64)

    def add(self, reference: Array, candidate: Array, labels: Array | None) -> None:
        """Add finite outputs (n, classes); `labels` (n,) are class indices, or ``None``."""
        r_class, c_class = np.argmax(reference, axis=1), np.argmax(candidate, axis=1)
        self._n += len(reference)
        self._agree += int(np.count_nonzero(r_class == c_class))
        if self._are_probabilities is None:
            self._are_probabilities = _probabilities(reference)
        self._divergence += _kl_sum(reference, candidate, probabilities=self._are_probabilities)
        if labels is not None:
            classes = self._counts.shape[1]
            for row, chosen in enumerate((labels, labels[r_class == labels], labels[c_class == labels])):
                self._counts[row] += np.bincount(chosen, minlength=classes)

    @property
    def agreement_pct(self) -> float:
        """Share of samples with the same top-1 class, 0..100."""
        return 100.0 * self._agree / self._n

    @property
    def kl(self) -> float:
        """Mean KL(reference || candidate) in nats, >= 0, of softmax scores or of probabilities as they are."""
        return max(0.0, self._divergence / self._n)

    @property
    def worst_class(self) -> WorstClass | None:
        """The class whose share of right answers fell most; ``None`` when none fell."""
        n, reference, candidate = self._counts
        lost = np.divide(reference - candidate, n, out=np.zeros(len(n)), where=n > 0)
        label = int(np.argmax(lost))
        if lost[label] <= 0.0:
            return None
        size = int(n[label])
        return WorstClass(label, size, 100.0 * int(reference[label]) / size, 100.0 * int(candidate[label]) / size)


def _probabilities(outputs: Array) -> bool:
    return bool(np.all(outputs >= 0) and np.allclose(np.sum(outputs, axis=1), 1.0, atol=1e-3))


def _kl_sum(reference: Array, candidate: Array, *, probabilities: bool) -> float:
    log_r, log_c = (_log_share(outputs, probabilities=probabilities) for outputs in (reference, candidate))
    return float(np.sum(np.exp(log_r) * (log_r - log_c)))


def _log_share(outputs: Array, *, probabilities: bool) -> Array:
    """Logarithm of each class's probability (n, classes)."""
    values = outputs.astype(np.float64)
    if probabilities:
        return np.log(np.maximum(values, _SMALLEST))
    values -= np.max(values, axis=1, keepdims=True)
    return np.asarray(values - np.log(np.sum(np.exp(values), axis=1, keepdims=True)))
