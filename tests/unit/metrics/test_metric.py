"""Metrics of users: callables, and those of scikit-learn and torchmetrics."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn.metrics
import torch
import torchmetrics.classification
import torchmetrics.regression
from scipy.special import softmax

from pytest_quant.metrics import Metric
from pytest_quant.metrics.metric import resolve_wrapped
from tests.unit.metrics.scoring import CLASSES, classified, said, score

Fn = Callable[..., Any]


class Loud:
    """A callable that is no function."""

    def __call__(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"better": "up"}, "Metric: better gives the direction\n  got: 'up'"),
        ({"fn": "f1"}, "Metric: fn must be callable\n  got: 'f1'"),
        ({"fn": Loud}, f"Metric: fn is a class\n  got: {Loud!r}\n  next: give an object, Loud()"),
        ({"unit": 3}, "Metric: unit must be text\n  got: 3"),
        *(
            ({"scale": scale}, f"Metric: scale must be a positive number\n  got: {scale!r}")
            for scale in (-1, 0, float("nan"), float("inf"), True, "100")
        ),
    ],
)
def test_a_metric_that_cannot_be(options: dict[str, Any], message: str) -> None:
    """The option, and what it was. One that can be is a share in percent, where more is better, by its own name."""
    assert said(lambda: Metric(**{"fn": np.equal, **options})).startswith(message)
    metric = Metric(functools.partial(np.isclose, atol=1.0))
    assert (metric.better, metric.unit, metric.scale, metric.name) == ("higher", "%", 100.0, "isclose")
    assert (Metric(Loud()).name, Metric(Loud(), name="own").name) == ("Loud", "own")


def absolute_deviance(outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One number for each sample, in the unit of the labels."""
    return np.asarray(np.abs(outputs[:, 0] - labels))


OF_ERRORS: tuple[Fn, ...] = (
    sklearn.metrics.mean_absolute_error,
    sklearn.metrics.mean_absolute_percentage_error,
    sklearn.metrics.zero_one_loss,
    functools.partial(sklearn.metrics.mean_pinball_loss, alpha=0.9),
    functools.partial(functools.partial(sklearn.metrics.mean_tweedie_deviance), power=1),
    torchmetrics.regression.MeanSquaredError(),
    torchmetrics.regression.TweedieDevianceScore(),
    torchmetrics.classification.MulticlassHingeLoss(num_classes=3),
    torch.nn.L1Loss(),
    absolute_deviance,
)


@pytest.mark.parametrize("fn", OF_ERRORS)
@pytest.mark.parametrize("given", [{}, {"better": "lower"}, {"scale": 1}, {"unit": ""}, {"name": "share"}])
def test_an_error_is_in_no_unit_by_default(fn: Fn, given: dict[str, Any]) -> None:
    """In percent, a limit of 1 would allow a hundredth of the target's unit; and more of it would be better."""
    message = said(lambda: Metric(fn, **given))
    assert "is an error by its name" in message
    assert "Metric(fn, better='lower', unit='', scale=1) for a quantity, or unit='%', scale=100 for a share" in message
    metric = Metric(fn, better="lower", unit="", scale=1)
    assert (metric.better, metric.unit, metric.scale) == ("lower", "", 1.0)


@pytest.mark.parametrize(
    "fn",
    [sklearn.metrics.accuracy_score, sklearn.metrics.d2_absolute_error_score, np.equal, torch.nn.CosineSimilarity()],
)
def test_a_score_is_a_share_by_default(fn: Fn) -> None:
    """Also the share of an error that a model explains, which is a score."""
    assert (Metric(fn).better, Metric(fn).unit, Metric(fn).scale) == ("higher", "%", 100.0)


def test_a_share_of_errors_works_in_percent() -> None:
    """5 of 60 wrong answers are 8.3 %."""
    labels = np.arange(60) % CLASSES
    outputs = np.eye(CLASSES, dtype=np.float32)[np.where(np.arange(60) < 5, labels + 1, labels) % CLASSES]
    metric = Metric(sklearn.metrics.zero_one_loss, better="lower", unit="%", scale=100)
    assert score(metric, outputs, labels) == pytest.approx(100 * 5 / 60)


@pytest.mark.parametrize(("unit", "scale"), [("%", 100.0), ("", 1.0), ("mm", 1.0)])
def test_only_percent_is_a_hundred_times_what_a_function_gives(unit: str, scale: float) -> None:
    """A score in millimetres is what the function says, unless a scale is given."""
    assert Metric(np.equal, unit=unit).scale == scale
    assert Metric(np.equal, unit=unit, scale=1000).scale == 1000.0


@pytest.mark.parametrize(
    ("given_back", "value"),
    [
        (np.zeros((4, 1)), "an array of shape (4, 1) and dtype float64 for 4 samples"),
        (np.array(["a"] * 4), "an array of shape (4,) and dtype <U1 for 4 samples"),
        (0.5, "an array of shape () and dtype float64 for 4 samples"),
    ],
)
def test_a_callable_that_gives_no_score_for_each_sample(given_back: object, value: str) -> None:
    """What it gave, and what to return."""
    metric = resolve_wrapped(Metric(lambda _outputs, _labels: given_back, name="own"))
    message = said(lambda: metric.statistics(np.zeros((4, 2)), np.zeros(4)))
    assert message.startswith(f"metric 'own' must give one score per sample\n  got: {value}\n")


def test_what_a_wrapped_metric_tells_the_evaluation() -> None:
    """Which scores are rates, and which metrics read objects, or all samples at once."""
    accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=3)
    own, theirs, tensors = (
        resolve_wrapped(Metric(fn, scale=2.0)) for fn in (np.equal, sklearn.metrics.accuracy_score, accuracy)
    )
    assert (own.rate, own.reads_objects, own.costly) == (2.0, True, False)
    assert (theirs.rate, theirs.reads_objects, theirs.costly) == (None, True, True)
    assert (tensors.rate, tensors.reads_objects, tensors.costly) == (None, False, True)
    assert not any(each.reads_classes or each.answers for each in (own, theirs, tensors))


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
    metric = Metric(fn, better="lower", unit="")
    assert score(metric, outputs, labels) == pytest.approx(fn(targets, outputs), rel=1e-6)


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
    assert score(Metric(fn, better="higher", unit=""), shares, labels) == pytest.approx(fn(labels, shares))


@pytest.mark.parametrize("fn", [sklearn.metrics.roc_auc_score, sklearn.metrics.average_precision_score])
def test_ranking_of_two_classes_is_by_the_second(fn: Fn) -> None:
    """Scores and their softmax rank alike, as the second class's probability does; the hinge loss takes it so too."""
    random = np.random.default_rng(4)
    outputs = random.normal(size=(80, 2))
    labels = (random.random(80) < softmax(outputs, axis=1)[:, 1]).astype(int)
    expected = 100 * fn(labels, softmax(outputs, axis=1)[:, 1])
    assert score(Metric(fn), outputs, labels) == pytest.approx(expected)
    assert score(Metric(fn), softmax(outputs, axis=1), labels) == pytest.approx(expected)
    hinge = sklearn.metrics.hinge_loss(labels, outputs[:, 1] - outputs[:, 0])
    metric = Metric(sklearn.metrics.hinge_loss, better="lower", unit="")
    assert score(metric, outputs, labels) == pytest.approx(hinge)


def test_torchmetrics_objects_give_their_own_value() -> None:
    """The object is reset, fed and read; its value is scaled like any other."""
    outputs, labels = classified(3)
    accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=CLASSES, average="micro")
    expected = 100 * float(accuracy(torch.from_numpy(outputs), torch.from_numpy(labels)))
    for _ in range(2):
        assert score(Metric(accuracy), outputs, labels) == pytest.approx(expected, rel=1e-6)
    error = torchmetrics.regression.MeanSquaredError()
    targets = np.arange(60, dtype=np.float64)
    result = score(Metric(error, better="lower", unit="", scale=1), outputs[:, :1], targets)
    assert result == pytest.approx(float(np.mean((outputs[:, 0] - targets) ** 2)), rel=1e-6)
