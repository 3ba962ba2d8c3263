"""The mean intersection over union beside scikit-learn and torchmetrics, and maps that cannot be compared."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import jaccard_score
from torchmetrics.classification import MulticlassJaccardIndex

from pytest_quant.metrics import resolve_metric
from pytest_quant.metrics.builtin import BUILTIN
from tests.unit.metrics.scoring import said, score


@given(seed=st.integers(0, 10**6), classes=st.integers(1, 6), scored=st.booleans())
@settings(max_examples=100, deadline=None)
def test_it_is_that_of_scikit_learn(seed: int, classes: int, scored: bool) -> None:
    """Over the classes that occur in labels or predictions, where labels count; of scores and of maps."""
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 6))
    shape = (n, classes, 3, 4) if scored else (n, 3, 4)
    outputs = random.normal(size=shape).astype(np.float32) if scored else random.integers(0, classes, shape)
    labels = random.choice([*range(classes), 255, -1], (n, 3, 4))
    counted = (labels != 255) & (labels >= 0)
    predicted = outputs.argmax(axis=1) if scored else outputs
    if counted.any():
        expected = 100 * jaccard_score(labels[counted], predicted[counted], average="macro")
        assert score("miou", outputs, labels) == pytest.approx(expected, abs=1e-9)
        if classes > 1:
            theirs = MulticlassJaccardIndex(classes)(torch.tensor(predicted[counted]), torch.tensor(labels[counted]))
            assert score("miou", outputs, labels) == pytest.approx(100 * float(theirs), abs=1e-4)
    else:
        assert np.isnan(score("miou", outputs, labels))


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30)
def test_samples_that_are_drawn_weigh_as_often(seed: int) -> None:
    """A resample scored by weights is the score of its rows."""
    random = np.random.default_rng(seed)
    rows = BUILTIN["miou"].statistics(random.integers(0, 4, (7, 5)).astype(np.uint8), random.integers(0, 4, (7, 5)))
    drawn = random.integers(0, 7, 7)
    assert BUILTIN["miou"].prepare is not None
    assert BUILTIN["miou"].prepare(rows)(drawn) == pytest.approx(BUILTIN["miou"].aggregate(rows[drawn]), abs=1e-9)


@pytest.mark.parametrize(
    ("outputs", "labels", "words"),
    [
        (np.zeros((2, 3, 4, 4), np.float32), np.zeros((2, 8, 8), int), "output (2, 3, 4, 4), labels (2, 8, 8)"),
        (np.zeros((2, 3, 4), np.float32), np.full((2, 4), 3), "a map of the label"),
        (np.full((2, 4), -1), np.zeros((2, 4), int), "a map of the output"),
        (np.full((2, 4), 256), np.zeros((2, 4), int), "whole numbers from 0 to 255"),
        (np.zeros((2, 3, 4), np.float32), np.full((2, 4), 0.5), "whole numbers from 0 to 2"),
    ],
)
def test_maps_that_cannot_be_compared(outputs: np.ndarray, labels: np.ndarray, words: str) -> None:
    """Another size, and a class that the model does not have, are told; labels are not resized or cut."""
    metric = resolve_metric("miou", "int", outputs.shape)
    assert metric is not None
    assert words in said(lambda: metric.statistics(outputs, labels))
