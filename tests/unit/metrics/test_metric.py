"""Metrics of users: callables, those of scikit-learn and torchmetrics, and labels that are texts or annotations."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import sklearn.metrics
import torch
import torchmetrics.classification
import torchmetrics.regression
from scipy.special import softmax
from sklearn.metrics import accuracy_score

from pytest_quant.data.labels import as_objects
from pytest_quant.measure.accuracy import OutputPair, evaluate
from pytest_quant.metrics import Metric, ResolvedMetric, resolve_metric
from pytest_quant.metrics.metric import resolve_wrapped
from pytest_quant.result import AccuracyResult
from tests.unit.metrics.scoring import CLASSES, classified, said, score

Fn = Callable[..., Any]


class Loud:
    """A callable that is no function."""

    def __call__(self) -> None:
        """Do nothing."""

    def __repr__(self) -> str:
        """Say something short."""
        return "<loud>"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"better": "up"}, "Metric: better tells the direction\n  got: 'up'\n  allowed: higher, lower"),
        ({"fn": "f1"}, "Metric: fn must be callable\n  got: 'f1'\n  next: Metric(fn, better='higher')"),
        ({"fn": Loud}, f"Metric: fn is a class\n  got: {Loud!r}\n  next: give an object, Loud()"),
        ({"unit": 3}, "Metric: unit must be text\n  got: 3\n  next: unit='' for a plain number"),
        (
            {"scale": -1},
            "Metric: scale must be a positive number\n  got: -1\n  next: scale=1, unit='' keeps scores",
        ),
        *(
            ({"scale": scale}, f"Metric: scale must be a positive number\n  got: {scale!r}")
            for scale in (0, float("nan"), float("inf"), True, "100")
        ),
    ],
)
def test_a_metric_that_cannot_be(options: dict[str, Any], message: str) -> None:
    """The option, what it was and what it may be."""
    assert said(lambda: Metric(**{"fn": np.equal, **options})).startswith(message)


def test_what_a_metric_is_unless_told() -> None:
    """A share in percent, where more is better, by the name of the function or of the class."""
    metric = Metric(functools.partial(np.isclose, atol=1.0))
    assert (metric.better, metric.unit, metric.scale, metric.name) == ("higher", "%", 100.0, "isclose")
    assert (Metric(Loud()).name, Metric(Loud(), name="own").name) == ("Loud", "own")
    assert isinstance(Metric(Loud(), scale=2).scale, float)


def test_a_callable_gives_one_score_per_sample() -> None:
    """A user's own metric is the mean of its scores, times its scale."""
    outputs, labels = classified(4)
    own = Metric(lambda o, y: (o.argmax(axis=1) == y).astype(float), name="own")
    assert score(own, outputs, labels) == pytest.approx(score("top1", outputs, labels))


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
    assert said(lambda: metric.statistics(np.zeros((4, 2)), np.zeros(4))) == (
        f"metric 'own' must give one score per sample\n  got: {value}\n  allowed: numbers of shape (4,)\n"
        "  next: return one number for each row of outputs, not their mean"
    )


def test_an_object_that_needs_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, with what needs none."""
    accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=3)
    monkeypatch.delitem(sys.modules, "torch")
    assert said(lambda: resolve_wrapped(Metric(accuracy))) == (
        "a metric with update, compute and reset is fed torch tensors, and torch is not imported\n"
        f"  got: {accuracy!r}\n"
        "  next: wrap a callable that gives one score per sample: Metric(fn, better='higher')"
    )


def test_what_a_wrapped_metric_tells_the_evaluation() -> None:
    """Which scores are rates, and which metrics read objects, or all samples at once."""
    accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=3)
    own, theirs, tensors = (
        resolve_wrapped(Metric(fn, scale=2.0)) for fn in (np.equal, sklearn.metrics.accuracy_score, accuracy)
    )
    assert (own.rate, own.reads_objects, own.costly) == (2.0, True, False)
    assert (theirs.rate, theirs.reads_objects, theirs.costly) == (None, True, True)
    assert (tensors.rate, tensors.reads_objects, tensors.costly) == (None, False, True)
    assert not any(one.reads_classes or one.answers for one in (own, theirs, tensors))


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


ALPHABET = " abcd"
WORDS = ["ab cd", "a", "dd dd dd", "", "bad cab", "abc", "c c", "dab"]


def readable(texts: list[str]) -> np.ndarray:
    """Outputs (n, 8, 5) of a recognizer that reads `texts`: one-hot over the alphabet, padded with blanks."""
    indices = [[ALPHABET.index(char) for char in text.ljust(8)] for text in texts]
    return np.eye(len(ALPHABET), dtype=np.float32)[indices]


def read(outputs: np.ndarray) -> list[str]:
    """The texts of outputs."""
    return ["".join(ALPHABET[index] for index in row).rstrip() for row in outputs.argmax(axis=2)]


def judged(metric: Metric, reference: np.ndarray, candidate: np.ndarray, labels: list[Any]) -> AccuracyResult:
    """Evaluate in chunks of three."""
    objects = as_objects(labels)

    def pairs() -> Iterator[OutputPair]:
        for start in range(0, len(labels), 3):
            rows = slice(start, start + 3)
            part = reference[rows], candidate[rows], objects[rows]
            yield OutputPair({"y": part[0]}, {"y": part[1]}, part[2], start, len(part[0]))

    return evaluate(pairs(), resolve(metric, reference), output="y")


def resolve(metric: object, outputs: np.ndarray, label_type: str = "str") -> ResolvedMetric | None:
    """Resolve for labels that are objects."""
    return resolve_metric(metric, "object", outputs.shape, label_type)


def test_a_word_error_rate_of_right_and_wrong_is_tested_exactly() -> None:
    """Scores of 0 and 1 on texts have McNemar's p like those on classes."""
    wrong = [*WORDS[:5], "a", "b", "c"]
    metric = Metric(lambda o, y: [text == label for text, label in zip(read(o), y, strict=True)], name="exact")
    found = judged(metric, readable(WORDS), readable(wrong), WORDS)
    assert (found.reference, found.candidate, found.discordant) == (100.0, 62.5, 3)
    assert found.p_value == pytest.approx(0.25)  # two-sided: 2 / 2^3


def test_agreement_needs_no_labels_of_classes() -> None:
    """Outputs (n, classes) are compared by class whatever the labels are; no class is the worst."""
    scores = np.eye(4, dtype=np.float32)
    metric = Metric(lambda o, y: [str(row.argmax()) == label for row, label in zip(o, y, strict=True)], name="named")
    found = judged(metric, scores, scores[[0, 1, 2, 0]], ["0", "1", "2", "3"])
    assert (found.reference, found.candidate, found.agreement_pct, found.worst_class) == (100.0, 75.0, 75.0, None)


def test_a_function_of_scikit_learn_gets_the_objects() -> None:
    """Whole-set metrics keep the labels as they are, too: lists of labels here, wrapped to be read."""

    def named(labels: np.ndarray, classes: np.ndarray) -> float:
        return float(accuracy_score(list(labels), [ALPHABET[index] for index in classes]))

    named.__module__ = "sklearn.metrics._classification"
    scores = np.eye(5, dtype=np.float32)
    found = judged(Metric(named, name="named"), scores, scores[[0, 1, 2, 3, 3]], list(ALPHABET))
    assert (found.reference, found.candidate) == (100.0, 80.0)
