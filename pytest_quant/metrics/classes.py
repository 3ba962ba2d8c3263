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
        self._diverging = 0
        self._are_probabilities: bool | None = None
        self._counts = np.zeros((3, classes), dtype=np.int64)
        self._indices = True

    def add(self, reference: Array, candidate: Array, labels: Array | None, sound: Array) -> None:
        """Add outputs (n, classes).

        Parameters
        ----------
        labels : (n,) class indices, or ``None``. Labels beyond the classes are no indices, and leave no worst class.
        sound : (n,) samples whose outputs can be compared; the others agree with nothing and are never right.
        """
        r_class, c_class = np.argmax(reference, axis=1), np.argmax(candidate, axis=1)
        self._n += len(reference)
        self._agree += int(np.count_nonzero((r_class == c_class) & sound))
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

        Of softmax scores; or of the outputs as they are, when the reference's first ones are probabilities already:
        not negative, each row summing to 1. A probability below 1e-12 counts as 1e-12.
        """
        return max(0.0, self._divergence / self._diverging) if self._diverging else None

    @property
    def worst_class(self) -> WorstClass | None:
        """The class whose share of right answers fell most, the first of equal ones; ``None`` when none fell."""
        if not self._indices:
            return None
        n, reference, candidate = self._counts
        lost = np.divide(reference - candidate, n, out=np.zeros(len(n)), where=n > 0)
        label = int(np.argmax(lost))
        if lost[label] <= 0.0:
            return None
        size = int(n[label])
        return WorstClass(label, size, 100.0 * int(reference[label]) / size, 100.0 * int(candidate[label]) / size)


def _probabilities(outputs: Array) -> bool:
    return bool(np.all(outputs >= 0) and np.allclose(np.sum(outputs, axis=1), 1.0, atol=1e-3))


def _divergences_of_probabilities(reference: Array, candidate: Array) -> Array:
    """KL of each row (n,) in nats; not finite where a row is not."""
    r, c = (np.maximum(side, _SMALLEST, dtype=np.float64) for side in (reference, candidate))
    return np.asarray(np.einsum("ij,ij->i", r, np.log(r) - np.log(c)))


def _divergences_of_scores(reference: Array, candidate: Array, r_class: Array, c_class: Array) -> Array:
    """KL between the softmax of each row (n,) in nats; not finite where a row is not.

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
    """Scores (n, classes) less the one at index `largest` (n,) of their row, so that no exponential overflows."""
    scores = scores.astype(np.float64)
    scores -= scores[np.arange(len(scores)), largest][:, None]
    return scores
