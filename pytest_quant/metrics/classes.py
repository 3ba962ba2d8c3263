"""What two models answer: classes, with agreement, divergence and the worst class; texts, word by word; next tokens.

And what luck would give of all that.
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from pytest_quant.errors import DataError, UsageError
from pytest_quant.metrics.metric import Array
from pytest_quant.result import ChangedAnswer, ClassScore, WorstClass
from pytest_quant.stats.paired import SPREADS, agreement_by_luck

_SMALLEST = 1e-12
"""Stands for a probability of 0, whose logarithm would make every divergence infinite."""

MOST_CLASSES = 1000
"""With samples, that are kept one by one: they take 4 kB of a record."""


_MOST_CHANGED = 20


class ClassError:
    """Accumulates agreement, divergence and right answers by class over a set.

    `classes` is their number, and `n_different` that of samples with different inputs, by which luck is reckoned.
    `changed` are the samples whose class differs, the nearest to the reference's decision first.
    """

    def __init__(self, classes: int, n_different: int | None = None) -> None:
        self.classes = classes
        self._different = n_different
        self._n = self._agree = 0
        self.changed: tuple[ChangedAnswer, ...] = ()
        self._divergence = 0.0
        self._diverging = 0
        self._are_probabilities: bool | None = None
        self._counts = np.zeros((3, classes), dtype=np.int64)
        self._answers = np.zeros((2, classes), dtype=np.int64)
        self._indices = True

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
        every = np.arange(len(reference))
        margins = reference[every, r_class].astype(np.float64) - reference[every, c_class]
        places = np.flatnonzero((r_class != c_class) & sound & np.isfinite(margins))
        changed = [
            ChangedAnswer(self._n + place, int(r_class[place]), int(c_class[place]), float(margins[place]))
            for place in places.tolist()
        ]
        self.changed = tuple(heapq.nsmallest(_MOST_CHANGED, [*self.changed, *changed], key=lambda each: each.margin))
        self._n += len(reference)
        for row, chosen in enumerate((r_class, c_class)):
            self._answers[row] += np.bincount(chosen, minlength=self.classes)
        self._agree += int(np.count_nonzero((r_class == c_class) & sound))
        if self._are_probabilities is None:
            self._are_probabilities = are_probabilities(reference)
        rows = _divergences(reference, candidate, self._are_probabilities)
        rows = rows[sound & np.isfinite(rows)]
        self._divergence += float(np.sum(rows))
        self._diverging += len(rows)
        if labels is not None and len(labels):
            self._indices = self._indices and int(labels.min()) >= 0 and int(labels.max()) < self.classes
        if labels is not None and self._indices:
            for row, chosen in enumerate((labels, labels[r_class == labels], labels[(c_class == labels) & sound])):
                self._counts[row] += np.bincount(chosen, minlength=self.classes)

    @property
    def agreement_pct(self) -> float:
        """Share of samples with the same top-1 class, 0..100."""
        return 100.0 * self._agree / self._n

    @property
    def agreement_chance(self) -> float:
        """The most that answers in these shares agree by luck, 0..100."""
        return 100.0 * self._by_luck(*self._answers)

    @property
    def commonest_pct(self) -> float:
        """Share of the samples with the reference's commonest answer, 0..100."""
        return 100.0 * int(self._answers[0].max()) / self._n

    def chance(self, guesses: int, side: int = 0) -> float | None:
        """Return the most that so many guesses without a look at the samples get right, 0..100; `None` without labels.

        Always the commonest labels, and one sample more; or, by luck, the own answers of a side, 0 for the reference
        and 1 for the candidate, in another order.
        """
        labels = self._counts[0]
        n = int(labels.sum())
        if not self._indices or not n:
            return None
        share, different = max(guesses / len(labels), int(np.sort(labels)[-guesses:].sum()) / n), self._different or n
        luck = share + SPREADS * math.sqrt(max(0.0, share * (1.0 - share)) / different)
        if guesses == 1:
            luck = self._by_luck(labels, self._answers[side])
        return 100.0 * min(1.0, max(share + 1.0 / different, luck))

    def _by_luck(self, one: Array, other: Array) -> float:
        return agreement_by_luck(one.tolist(), other.tolist(), self._different)

    @property
    def skill_lost(self) -> bool:
        """Whether the reference's answers have to do with the labels, and the candidate's no more than by luck."""
        n, *right = self._counts.sum(axis=1).tolist()
        lucky = [n * self._by_luck(self._counts[0], answers) for answers in self._answers]
        return self._indices and right[0] > lucky[0] and right[1] <= lucky[1]

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
        """Each class with samples, by its label; empty without labels, and if more than `MOST_CLASSES` have any."""
        seen = np.flatnonzero(self._counts[0])
        if not self._indices or len(seen) > MOST_CLASSES:
            return ()
        n = self._counts[0, seen]
        # Four decimals differ for each count of up to a million samples; more would only take room.
        shares = np.round(100.0 * self._counts[1:, seen] / n, 4)
        return tuple(map(ClassScore, seen.tolist(), n.tolist(), *shares.tolist()))


def are_probabilities(outputs: Array) -> bool:
    """Whether no output (n, classes) is negative and each row sums to 1."""
    return bool(np.all(outputs >= 0) and np.allclose(np.sum(outputs, axis=1), 1.0, atol=1e-3))


def _divergences(reference: Array, candidate: Array, are_shares: bool) -> Array:
    """Return the KL of each row (n,) in nats, of shares or of the softmax of scores; not finite where a row is not."""
    with np.errstate(invalid="ignore"):
        r, c = ((_logs if are_shares else _log_softmax)(side.astype(np.float64)) for side in (reference, candidate))
        share, distance = np.exp(r), np.subtract(r, c, out=r)
        distance[share == 0.0] = 0.0
        return np.asarray(np.einsum("ij,ij->i", share, distance))


def _logs(shares: Array) -> Array:
    return np.asarray(np.log(np.maximum(shares, _SMALLEST)))


def _log_softmax(scores: Array) -> Array:
    """Return the logarithm of the softmax of each row (n, classes), which no large score makes overflow."""
    logs = scores - scores.max(axis=1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    return np.asarray(logs)


IGNORED = -100
"""Label of a token that does not count, as in PyTorch and in Hugging Face."""


def is_text(outputs: Array) -> bool:
    """Whether `outputs` (n, ...) are texts."""
    return outputs.dtype.kind in "OU" and all(isinstance(text, str) for text in outputs.ravel())


class WordAgreement:
    """Accumulates the share of words that two texts have in common, place by place.

    Of a sample it is the number of places with the same word in both, by the number of words of the longer text: a
    word that is left out or added moves all that follow. Words lie between spaces; two empty texts agree.
    """

    def __init__(self) -> None:
        self._n = 0
        self._shares = 0.0

    def add(self, reference: Array, candidate: Array) -> None:
        """Add texts (n, ...) of both sides."""
        self._n += reference.size
        for pair in zip(reference.ravel(), candidate.ravel(), strict=True):
            ours, theirs = (text.split() for text in pair)
            same = sum(word == other for word, other in zip(ours, theirs, strict=False))
            self._shares += same / max(len(ours), len(theirs)) if ours or theirs else 1.0

    @property
    def agreement_pct(self) -> float:
        """Mean of the shares over all texts, 0..100."""
        return 100.0 * self._shares / self._n


def token_labels(outputs: Array, labels: Array | None) -> Array | None:
    """Return the next tokens (n, tokens) that `outputs` (n, tokens, vocabulary) score; ``None`` for anything else."""
    if labels is None or outputs.ndim != 3 or outputs.shape[2] < 2 or outputs.dtype.kind != "f":
        return None
    if labels.dtype.kind == "O":
        # Of samples with different numbers of tokens; those of one chunk have the same.
        try:
            labels = np.asarray(labels.tolist())
        except ValueError:
            return None
    return labels if labels.dtype.kind in "iu" and labels.shape == outputs.shape[:2] else None


def token_losses(outputs: Array, labels: Array) -> Array:
    """Return for each sample the sum of -log p(label) in nats over its labelled tokens, and their number, (n, 2).

    Parameters
    ----------
    outputs : logits, log-probabilities or probabilities (n, tokens, vocabulary) of the token after each.
    labels : that token (n, tokens); -100 does not count.

    Raises
    ------
    UsageError : outputs and labels are not of these shapes.
    DataError : a label is no token of the vocabulary.
    """
    tokens = token_labels(outputs, labels)
    if tokens is None:
        raise UsageError(
            "perplexity needs scores of each token of the vocabulary, and the next tokens as labels",
            value=f"output {outputs.dtype}{outputs.shape}, labels {labels.dtype}{labels.shape}",
            allowed="an output (n, tokens, vocabulary), integer labels (n, tokens), -100 for a token that does not "
            "count",
        )
    losses = np.zeros((len(outputs), 2))
    for row, (scores, wanted) in enumerate(zip(outputs, tokens, strict=True)):
        counted = wanted != IGNORED
        indices, chosen = wanted[counted], scores[counted].astype(np.float64)
        if len(indices) and not 0 <= indices.min() <= indices.max() < chosen.shape[1]:
            raise DataError(
                "a label is no token of the model's vocabulary",
                value=f"labels from {indices.min()} to {indices.max()}",
                allowed=f"0 to {chosen.shape[1] - 1}, or {IGNORED} for one that does not count",
            )
        if len(indices):
            logs = _log_softmax(_logs(chosen) if are_probabilities(chosen) else chosen)
            losses[row] = -float(np.sum(logs[np.arange(len(indices)), indices])), len(indices)
    return losses


def perplexity(losses: Array) -> float:
    """Return exp of the mean loss of all labelled tokens; NaN without any. `losses` are rows of `token_losses`."""
    loss, tokens = losses.sum(axis=0)
    return float(np.exp(loss / tokens)) if tokens else float("nan")
