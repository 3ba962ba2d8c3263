"""Built-in, scikit-learn, torchmetrics and users' own metrics."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics
import torch
import torchmetrics.classification
import torchmetrics.regression
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cosine as cosine_distance

from pytest_quant.errors import UsageError
from pytest_quant.metrics import Metric, resolve_metric

CLASSES = 7


def classified(seed: int, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (n, 7) and labels (n,)."""
    random = np.random.default_rng(seed)
    return random.normal(size=(n, CLASSES)).astype(np.float32), random.integers(0, CLASSES, n)


def score(metric: object, outputs: np.ndarray, labels: np.ndarray) -> float:
    """Score outputs in two chunks, as the evaluation does."""
    kind = "int" if np.issubdtype(labels.dtype, np.integer) else "float"
    resolved = resolve_metric(metric, kind, outputs.shape)
    assert resolved is not None
    half = len(outputs) // 2
    parts = [resolved.statistics(outputs[rows], labels[rows]) for rows in (slice(half), slice(half, None))]
    return resolved.aggregate(np.concatenate(parts))


@given(seed=st.integers(0, 10_000))
def test_class_metrics_equal_scikit_learns(seed: int) -> None:
    """top1, top5 and macro F1 are scikit-learn's, in percent."""
    outputs, labels = classified(seed)
    predicted = outputs.argmax(axis=1)
    top5 = sklearn.metrics.top_k_accuracy_score(labels, outputs, k=5, labels=range(CLASSES))
    assert score("top1", outputs, labels) == pytest.approx(100 * sklearn.metrics.accuracy_score(labels, predicted))
    assert score("top5", outputs, labels) == pytest.approx(100 * top5)
    expected = 100 * sklearn.metrics.f1_score(labels, predicted, average="macro")
    assert score("f1", outputs, labels) == pytest.approx(expected)


@given(seed=st.integers(0, 10_000))
def test_error_metrics_equal_scikit_learns(seed: int) -> None:
    """Mae and rmse are scikit-learn's over vectors, in the unit of the labels."""
    random = np.random.default_rng(seed)
    outputs, labels = random.normal(size=(40, 3)), random.normal(size=(40, 3))
    assert score("mae", outputs, labels) == pytest.approx(sklearn.metrics.mean_absolute_error(labels, outputs))
    expected = np.sqrt(sklearn.metrics.mean_squared_error(labels, outputs))
    assert score("rmse", outputs, labels) == pytest.approx(expected)
    cosines = [1 - cosine_distance(one, other) for one, other in zip(outputs, labels, strict=True)]
    assert score("cosine", outputs, labels) == pytest.approx(np.mean(cosines))


@pytest.mark.parametrize(
    ("fn", "labels_of"),
    [
        (sklearn.metrics.accuracy_score, "classes"),
        (sklearn.metrics.matthews_corrcoef, "classes"),
        (sklearn.metrics.r2_score, "numbers"),
        (sklearn.metrics.mean_absolute_error, "numbers"),
    ],
)
def test_scikit_learn_functions_get_labels_and_predictions(fn: object, labels_of: str) -> None:
    """Classification takes the predicted classes, regression the outputs as they are."""
    outputs, labels = classified(1)
    if labels_of == "numbers":
        outputs, targets = outputs[:, :1], np.random.default_rng(2).normal(size=60)
        expected = fn(targets, outputs[:, 0])  # type: ignore[operator]
        assert score(Metric(fn, scale=1, unit=""), outputs, targets) == pytest.approx(expected, rel=1e-6)  # type: ignore[arg-type]
    else:
        expected = fn(labels, outputs.argmax(axis=1))  # type: ignore[operator]
        assert score(Metric(fn), outputs, labels) == pytest.approx(100 * expected)  # type: ignore[arg-type]


def test_torchmetrics_objects_give_their_own_value() -> None:
    """The object is reset, fed and read; its value is scaled like any other."""
    outputs, labels = classified(3)
    accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=CLASSES, average="micro")
    expected = 100 * float(accuracy(torch.from_numpy(outputs), torch.from_numpy(labels)))
    assert score(Metric(accuracy), outputs, labels) == pytest.approx(expected, rel=1e-6)
    error = torchmetrics.regression.MeanSquaredError()
    targets = np.arange(60, dtype=np.float64)
    found = score(Metric(error, better="lower", unit="", scale=1), outputs[:, :1], targets)
    assert found == pytest.approx(float(np.mean((outputs[:, 0] - targets) ** 2)), rel=1e-6)


def test_a_callable_gives_one_score_per_sample() -> None:
    """A user's own metric is the mean of its scores, times its scale."""
    outputs, labels = classified(4)
    own = Metric(lambda o, y: (o.argmax(axis=1) == y).astype(float), name="own")
    assert score(own, outputs, labels) == pytest.approx(score("top1", outputs, labels))


def test_a_callable_that_gives_the_mean_is_told_so() -> None:
    """One number for a whole chunk is refused with the shape that was expected."""
    outputs, labels = classified(5)
    with pytest.raises(UsageError, match="one score per sample"):
        score(Metric(lambda o, y: np.mean(o.argmax(axis=1) == y)), outputs, labels)


@pytest.mark.parametrize("bad", [{"better": "up"}, {"scale": 0}, {"scale": float("nan")}, {"scale": -1}])
def test_a_metric_declares_a_direction_and_a_positive_scale(bad: dict[str, object]) -> None:
    """Anything else is a usage error when the metric is written."""
    with pytest.raises(UsageError):
        Metric(np.equal, **bad)  # type: ignore[arg-type]


def test_an_unwrapped_callable_is_refused() -> None:
    """Its direction cannot be guessed; the message shows how to wrap it."""
    with pytest.raises(UsageError, match=r"Metric\(fn, better="):
        resolve_metric(sklearn.metrics.accuracy_score, "int", (1, 3))


def test_an_unknown_name_names_the_nearest() -> None:
    """A typo is told what was meant."""
    with pytest.raises(UsageError, match="did you mean 'top1'"):
        resolve_metric("topp1", "int", (1, 3))


def test_the_default_is_top1_for_classes_only() -> None:
    """Integer labels and an output (n, classes) have a default, nothing else does."""
    default = resolve_metric(None, "int", (1, 3))
    assert default is not None
    assert default.name == "top1"
    assert resolve_metric(None, "float", (1, 3)) is None
    assert resolve_metric(None, "int", (1, 3, 3)) is None
    assert resolve_metric(None, "none", (1, 3)) is None


def test_a_named_metric_without_labels_is_refused() -> None:
    """What cannot be scored is not scored in silence."""
    with pytest.raises(UsageError, match="needs labels"):
        resolve_metric("top1", "none", (1, 3))
