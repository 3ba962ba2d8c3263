"""Models of language: texts that are compared word by word, and scores (n, tokens, vocabulary) of the next token."""

from __future__ import annotations

import numpy as np

from pytest_quant.errors import DataError, UsageError
from pytest_quant.metrics.classes import are_probabilities
from pytest_quant.metrics.metric import Array

IGNORED = -100
"""Label of a token that does not count, as in PyTorch and in Hugging Face."""

_SMALLEST = 1e-12


def is_text(outputs: Array) -> bool:
    """Whether `outputs` (n, ...) are texts."""
    return outputs.dtype.kind in "OU" and all(isinstance(text, str) for text in outputs.ravel())


def exact_matches(outputs: Array, labels: Array) -> Array:
    """Return a mask (n,) of the texts that equal their labels but for space around them.

    Raises
    ------
    UsageError : outputs or labels are no texts, one for each sample.
    """
    n = len(outputs)
    if outputs.size != n or labels.size != n or not (is_text(outputs) and is_text(labels)):
        raise UsageError(
            "exact_match compares one text of each sample with its label",
            value=f"outputs {outputs.dtype}{outputs.shape}, labels {labels.dtype}{labels.shape}",
            fix="give the labels as a list of texts, or name another metric or output",
        )
    pairs = zip(outputs.ravel(), labels.ravel(), strict=True)
    return np.array([text.strip() == label.strip() for text, label in pairs], dtype=bool)


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
            allowed="an output (n, tokens, vocabulary), integer labels (n, tokens), -100 where a token does not count",
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
            logs = np.log(np.maximum(chosen, _SMALLEST)) if are_probabilities(chosen) else chosen
            highest = logs.max(axis=1)
            total = highest + np.log(np.sum(np.exp(logs - highest[:, None]), axis=1))
            losses[row] = float(np.sum(total - logs[np.arange(len(indices)), indices])), len(indices)
    return losses


def perplexity(losses: Array) -> float:
    """Return exp of the mean loss of all labelled tokens; NaN without any. `losses` are rows of `token_losses`."""
    loss, tokens = losses.sum(axis=0)
    return float(np.exp(loss / tokens)) if tokens else float("nan")
