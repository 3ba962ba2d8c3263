"""Metrics of scikit-learn and torchmetrics give what they give on their own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn.metrics
import torch
import torchmetrics.classification
import torchmetrics.regression
from scipy.special import softmax

from pytest_quant.errors import UsageError
from pytest_quant.metrics import Metric
from tests.unit.metrics.scoring import CLASSES, classified, score

Fn = Callable[..., Any]


@pytest.mark.parametrize(
    "fn",
    [
        sklearn.metrics.accuracy_score,
        sklearn.metrics.matthews_corrcoef,
        functools.partial(sklearn.metrics.f1_score, average="macro"),
        functools.partial(functools.partial(sklearn.metrics.fbeta_score, beta=2), average="weighted"),
    ],
)
def test_classification_gets_the_predicted_classes(fn: Fn) -> None:
    """Also through functools.partial, which most of these need for more than two classes."""
    outputs, labels = classified(1)
    assert score(Metric(fn), outputs, labels) == pytest.approx(100 * fn(labels, outputs.argmax(axis=1)))


@pytest.mark.parametrize("fn", [sklearn.metrics.r2_score, sklearn.metrics.mean_absolute_error])
@pytest.mark.parametrize("width", [1, 3])
def test_regression_gets_the_outputs(fn: Fn, width: int) -> None:
    """One number per sample or several: labels and outputs keep their shapes."""
    outputs, targets = classified(2)[0][:, :width], np.random.default_rng(2).normal(size=(60, width))
    labels = targets[:, 0] if width == 1 else targets
    assert score(Metric(fn, scale=1, unit=""), outputs, labels) == pytest.approx(fn(targets, outputs), rel=1e-6)


@pytest.mark.parametrize(
    "fn",
    [
        sklearn.metrics.log_loss,
        sklearn.metrics.d2_log_loss_score,
        functools.partial(sklearn.metrics.roc_auc_score, multi_class="ovr"),
        functools.partial(sklearn.metrics.top_k_accuracy_score, k=3),
    ],
)
def test_losses_of_probabilities_and_rankings_get_the_outputs(fn: Fn) -> None:
    """The class alone would make a number of them that means nothing."""
    outputs, labels = classified(3, n=200)
    shares = softmax(outputs.astype(np.float64), axis=1)
    assert score(Metric(fn, scale=1), shares, labels) == pytest.approx(fn(labels, shares))


def test_a_loss_of_two_classes_is_of_their_probabilities() -> None:
    """The hinge loss takes one number for each sample, the second score less the first."""
    outputs, labels = np.random.default_rng(5).normal(size=(80, 2)), np.arange(80) % 2
    expected = sklearn.metrics.hinge_loss(labels, outputs[:, 1] - outputs[:, 0])
    assert score(Metric(sklearn.metrics.hinge_loss, scale=1), outputs, labels) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["brier_score_loss", "d2_brier_score"])
def test_a_loss_of_probabilities_never_gets_a_class(name: str) -> None:
    """Whatever this scikit-learn has of them: a stand-in of that name is given the outputs."""
    seen = []

    def stand_in(_labels: object, given: np.ndarray) -> float:
        seen.append(given.shape)
        return 0.0

    stand_in.__module__, stand_in.__name__ = "sklearn.metrics._classification", name
    outputs, labels = classified(4)
    score(Metric(stand_in), outputs, labels)
    assert seen == [outputs.shape]


@pytest.mark.parametrize("fn", [sklearn.metrics.roc_auc_score, sklearn.metrics.average_precision_score])
def test_ranking_of_two_classes_is_by_the_second(fn: Fn) -> None:
    """Scores and their softmax rank alike, and both as the probability of the second class does."""
    random = np.random.default_rng(4)
    outputs = random.normal(size=(80, 2))
    labels = (random.random(80) < softmax(outputs, axis=1)[:, 1]).astype(int)
    expected = 100 * fn(labels, softmax(outputs, axis=1)[:, 1])
    assert score(Metric(fn), outputs, labels) == pytest.approx(expected)
    assert score(Metric(fn), softmax(outputs, axis=1), labels) == pytest.approx(expected)


def test_torchmetrics_objects_give_their_own_value() -> None:
    """The object is reset, fed and read; its value is scaled like any other."""
    outputs, labels = classified(3)
    accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=CLASSES, average="micro")
    expected = 100 * float(accuracy(torch.from_numpy(outputs), torch.from_numpy(labels)))
    for _ in range(2):
        assert score(Metric(accuracy), outputs, labels) == pytest.approx(expected, rel=1e-6)
    error = torchmetrics.regression.MeanSquaredError()
    targets = np.arange(60, dtype=np.float64)
    found = score(Metric(error, better="lower", unit="", scale=1), outputs[:, :1], targets)
    assert found == pytest.approx(float(np.mean((outputs[:, 0] - targets) ** 2)), rel=1e-6)


def test_torchmetrics_get_tensors_of_the_outputs_own_dtype() -> None:
    """Scores stay float32, class indices are int64 whatever the labels were."""
    seen: list[torch.dtype] = []

    class Recorder(torchmetrics.classification.MulticlassAccuracy):
        def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
            seen.extend([preds.dtype, target.dtype])
            super().update(preds, target)

    outputs, labels = classified(5)
    score(Metric(Recorder(num_classes=CLASSES)), outputs, labels.astype(np.uint16))
    assert seen == [torch.float32, torch.int64]


def test_torch_is_never_imported_for_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without torch in the process an object with update, compute and reset is a usage error."""
    accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=CLASSES)
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(UsageError, match="torch is not imported"):
        score(Metric(accuracy), *classified(6))
    assert "torch" not in sys.modules
