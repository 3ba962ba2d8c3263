"""The built-in metrics and users' own ones, against scikit-learn and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cosine as cosine_distance

from pytest_quant.errors import UsageError
from pytest_quant.metrics import Metric
from tests.unit.metrics.scoring import CLASSES, classified, score


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


def test_a_dead_output_is_not_right() -> None:
    """Equal scores for all classes put the first five first: top5 is the share of their labels, not 100 %."""
    labels = np.arange(70) % CLASSES
    dead = np.zeros((70, CLASSES), dtype=np.float32)
    assert score("top5", dead, labels) == pytest.approx(100 * 5 / CLASSES)
    assert score("top1", dead, labels) == pytest.approx(100 / CLASSES)


@given(seed=st.integers(0, 1000))
def test_top5_of_tied_scores_is_a_stable_sort(seed: int) -> None:
    """Coarse scores tie often, as quantized ones do; NumPy's stable sort of the descending scores agrees."""
    random = np.random.default_rng(seed)
    outputs, labels = random.integers(0, 3, (50, CLASSES)).astype(np.float32), random.integers(0, CLASSES, 50)
    first_five = np.argsort(-outputs, axis=1, kind="stable")[:, :5]
    assert score("top5", outputs, labels) == pytest.approx(100 * np.mean((first_five == labels[:, None]).any(axis=1)))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint64"])
@pytest.mark.parametrize("name", ["top1", "top5", "f1"])
def test_labels_of_any_integer_type_and_of_one_column_score_the_same(name: str, dtype: str) -> None:
    """A column (n, 1) of labels is the same labels."""
    outputs, labels = classified(6)
    assert score(name, outputs, labels.astype(dtype)[:, None]) == score(name, outputs, labels)


def test_class_metrics_refuse_vectors_of_labels() -> None:
    """One-hot labels are not class indices."""
    outputs, labels = classified(7)
    with pytest.raises(UsageError, match="one class index per sample"):
        score("top1", outputs, np.eye(CLASSES, dtype=np.int64)[labels])


@pytest.mark.parametrize("name", ["mae", "rmse", "cosine"])
def test_metrics_of_values_refuse_labels_of_another_size(name: str) -> None:
    """The index of a class is no target for the scores of all of them, and is not stretched to be one."""
    outputs, labels = classified(8)
    with pytest.raises(UsageError, match="differ in size"):
        score(name, outputs, labels)


def test_a_callable_gives_one_score_per_sample() -> None:
    """A user's own metric is the mean of its scores, times its scale."""
    outputs, labels = classified(4)
    own = Metric(lambda o, y: (o.argmax(axis=1) == y).astype(float), name="own")
    assert score(own, outputs, labels) == pytest.approx(score("top1", outputs, labels))


@pytest.mark.parametrize("given_back", [0.5, ["a"] * 30, np.zeros((30, 1))], ids=["mean", "text", "column"])
def test_a_callable_that_gives_anything_else_is_told_so(given_back: object) -> None:
    """One number for a whole chunk is refused with the shape that was expected."""
    with pytest.raises(UsageError, match=r"one score per sample[\s\S]*\(30,\)"):
        score(Metric(lambda _o, _y: given_back, name="own"), *classified(5))


@pytest.mark.parametrize(
    "bad",
    [
        {"better": "up"},
        {"unit": 3},
        {"scale": 0},
        {"scale": -1},
        {"scale": float("nan")},
        {"scale": float("inf")},
        {"scale": True},
        {"scale": "100"},
    ],
    ids=str,
)
def test_a_metric_declares_a_direction_and_a_positive_scale(bad: dict[str, object]) -> None:
    """Anything else is a usage error when the metric is written."""
    with pytest.raises(UsageError):
        Metric(np.equal, **bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("fn", ["accuracy", dict], ids=["text", "class"])
def test_a_metric_is_made_around_something_that_scores(fn: object) -> None:
    """Text cannot be called, and a class in place of its object would be called for nothing."""
    with pytest.raises(UsageError, match="fn"):
        Metric(fn)  # type: ignore[arg-type]
