"""Texts and scores of tokens: by hand, and against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from pytest_quant.metrics.classes import WordAgreement, perplexity, token_labels, token_losses
from tests.unit.metrics.scoring import said


def texts(*values: str) -> np.ndarray:
    """Return texts as a runtime gives them."""
    return np.array(values, dtype=object)


@pytest.mark.parametrize(
    ("reference", "candidate", "share"),
    [
        ("a b c d", "a b c d", 1.0),
        ("a b c d", "a  b\nc d ", 1.0),
        ("a b c d", "a b x d", 0.75),
        ("a b c d", "a b", 0.5),
        ("a b", "a b c d", 0.5),
        ("a b c", "b c", 0.0),
        ("", "", 1.0),
        ("", "a", 0.0),
    ],
)
def test_agreement_of_words(reference: str, candidate: str, share: float) -> None:
    """Place by place, by the longer text; the figure of a set is the mean over its texts, however they are cut."""
    words = WordAgreement()
    words.add(texts(reference), texts(candidate))
    assert words.agreement_pct == 100 * share
    words.add(texts("x", "x"), texts("x", "x"))
    assert words.agreement_pct == pytest.approx(100 * (share + 2) / 3)


def scored(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return logits (4, 6, 9), and labels (4, 6) of which a third does not count."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 9, (4, 6))
    labels[random.random((4, 6)) < 0.3] = -100
    labels[0, 0] = 3
    return (20 * random.normal(size=(4, 6, 9))).astype(np.float32), labels


@given(seed=st.integers(0, 1000))
def test_perplexity_equals_its_formula(seed: int) -> None:
    """Of logits, log-probabilities and probabilities alike; each labelled token counts the same in any sample."""
    logits, labels = scored(seed)
    counted = labels != -100
    logs = log_softmax(logits.astype(np.float64), axis=2)
    own = np.take_along_axis(logs, np.where(counted, labels, 0)[:, :, None], axis=2)[:, :, 0]
    expected = np.exp(-own[counted].mean())
    for outputs in (logits, logs):
        losses = token_losses(outputs, labels)
        assert losses[:, 1].tolist() == counted.sum(axis=1).tolist()
        assert perplexity(losses) == pytest.approx(expected)
    shares = softmax(logits / 20, axis=2)
    of_shares = np.take_along_axis(np.log(shares), np.where(counted, labels, 0)[:, :, None], axis=2)[:, :, 0]
    assert perplexity(token_losses(shares, labels)) == pytest.approx(np.exp(-of_shares[counted].mean()), rel=1e-4)


def test_tokens_that_cannot_be_told_apart_and_those_that_never_are() -> None:
    """A uniform model over nine tokens has perplexity 9, a certain one 1; masked tokens of the vocabulary are none."""
    labels = np.array([[0, 1], [2, -100]])
    assert perplexity(token_losses(np.zeros((2, 2, 9)), labels)) == pytest.approx(9)
    certain = np.full((2, 2, 9), -np.inf)
    np.put_along_axis(certain, np.maximum(labels, 0)[:, :, None], 0.0, axis=2)
    assert perplexity(token_losses(certain, labels)) == 1.0
    assert np.isnan(perplexity(token_losses(np.zeros((1, 1, 9)), np.array([[-100]]))))


def test_samples_of_different_lengths() -> None:
    """Their labels are objects; those of one chunk have one length."""
    labels = np.empty(2, object)
    labels[:] = [[1, 2], np.array([3, -100])]
    outputs = np.zeros((2, 2, 9))
    tokens = token_labels(outputs, labels)
    assert tokens is not None
    assert tokens.tolist() == [[1, 2], [3, -100]]
    labels[:] = [[1, 2], [3]]
    assert token_labels(outputs, labels) is None


@pytest.mark.parametrize(
    ("outputs", "labels"),
    [
        (np.zeros((2, 3)), np.zeros(2, int)),
        (np.zeros((2, 3, 1)), np.zeros((2, 3), int)),
        (np.zeros((2, 3, 4), int), np.zeros((2, 3), int)),
        (np.zeros((2, 3, 4)), np.zeros((2, 4), int)),
        (np.zeros((2, 3, 4)), np.zeros((2, 3))),
        (np.zeros((2, 3, 4)), texts("a", "b")),
    ],
)
def test_what_are_no_scores_of_tokens(outputs: np.ndarray, labels: np.ndarray) -> None:
    """They have no perplexity, and no top token."""
    assert token_labels(outputs, labels) is None
    assert "needs scores of each token" in said(lambda: token_losses(outputs, labels))
    assert token_labels(outputs, None) is None


@pytest.mark.parametrize("label", [9, -1])
def test_a_label_beyond_the_vocabulary(label: int) -> None:
    """It would be the score of another token."""
    labels = np.array([[0, label]])
    assert f"{min(0, label)} to {max(0, label)}" in said(lambda: token_losses(np.zeros((1, 2, 9)), labels))
