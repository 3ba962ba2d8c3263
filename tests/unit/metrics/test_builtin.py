"""The built-in metrics against scikit-learn and SciPy, and the table of metrics by name."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cosine as cosine_distance

from pytest_quant import readers
from pytest_quant.errors import UsageError
from pytest_quant.metrics import Metric, metric_by_name, resolve_metric
from pytest_quant.metrics.builtin import BUILTIN
from tests.unit.metrics.scoring import CLASSES, classified, said, score


def test_what_each_metric_tells_the_evaluation() -> None:
    """Which scores are rates, of how many answers, and which metrics read classes, objects, or all samples at once."""
    properties = {
        name: (each.better, each.unit, each.rate, each.answers, each.reads_classes, each.reads_objects, each.costly)
        for name, each in BUILTIN.items()
    }
    assert properties == {
        "top1": ("higher", "%", 100.0, 1, True, False, False),
        "top5": ("higher", "%", 100.0, 5, True, False, False),
        "f1": ("higher", "%", None, None, True, False, False),
        "mae": ("lower", "", 1.0, None, False, False, False),
        "cosine": ("higher", "", 1.0, None, False, False, False),
        "rmse": ("lower", "", None, None, False, False, False),
        "exact_match": ("higher", "%", 100.0, None, False, True, False),
        "wer": ("lower", "%", None, None, False, True, False),
        "cer": ("lower", "%", None, None, False, True, False),
        "perplexity": ("lower", "", None, None, False, True, False),
        "miou": ("higher", "%", None, None, False, False, False),
        "map": ("higher", "%", None, None, False, True, True),
        "map50": ("higher", "%", None, None, False, True, True),
    }
    assert {name: each.name for name, each in BUILTIN.items()} == {name: name for name in properties}


@given(seed=st.integers(0, 10_000), n=st.sampled_from([5, 60]))
def test_class_metrics_equal_scikit_learns(seed: int, n: int) -> None:
    """top1, top5 and macro F1 are scikit-learn's, in percent; of few samples some classes do not occur."""
    outputs, labels = classified(seed, n)
    predicted = outputs.argmax(axis=1)
    top5 = sklearn.metrics.top_k_accuracy_score(labels, outputs, k=5, labels=range(CLASSES))
    assert score("top1", outputs, labels) == pytest.approx(100 * sklearn.metrics.accuracy_score(labels, predicted))
    assert score("top5", outputs, labels) == pytest.approx(100 * top5)
    expected = 100 * sklearn.metrics.f1_score(labels, predicted, average="macro", zero_division=0)
    assert score("f1", outputs, labels) == pytest.approx(expected)


@given(seed=st.integers(0, 10_000))
def test_error_metrics_equal_scikit_learns(seed: int) -> None:
    """Mae and rmse are scikit-learn's over vectors, in the unit of the labels."""
    random = np.random.default_rng(seed)
    outputs, labels = random.normal(size=(40, 3)), random.normal(size=(40, 3))
    assert score("mae", outputs, labels) == pytest.approx(sklearn.metrics.mean_absolute_error(labels, outputs))
    expected = np.sqrt(sklearn.metrics.mean_squared_error(labels, outputs))
    assert score("rmse", outputs, labels) == pytest.approx(expected)
    cosines = [1 - cosine_distance(output, label) for output, label in zip(outputs, labels, strict=True)]
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


OURS = Metric(lambda outputs, _labels: np.max(outputs, axis=1), better="higher", unit="logit", scale=1)
NOT_A_METRIC = max


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """The entry points that a test adds, seen by a table read afresh."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(readers, "entry_points", lambda group: [point for point in points if point.group == group])
    metric_by_name.cache_clear()
    yield points
    metric_by_name.cache_clear()


def point(name: str, value: str = "OURS") -> EntryPoint:
    """Register something of this module as a metric."""
    return EntryPoint(name, f"{__name__}:{value}", "pytest_quant.metrics")


def test_a_third_partys_metric_stands_beside_the_built_in_ones(installed: list[EntryPoint]) -> None:
    """It is found by the name of its entry point and keeps its direction and unit."""
    installed.append(point("largest"))
    result = resolve_metric("largest", "int", (1, 3))
    assert result is not None
    assert (result.name, result.better, result.unit) == ("largest", "higher", "logit")
    known = "cer, cosine, exact_match, f1, largest, mae, map, map50, match@0.5, miou, perplexity, recall@10, rmse, top1"
    with pytest.raises(UsageError, match=f"known: {known}"):
        metric_by_name("sharpe")


def test_a_package_that_is_found_twice_is_one_package(installed: list[EntryPoint]) -> None:
    """The same entry point on two paths is no conflict."""
    installed += [point("largest"), point("largest")]
    assert metric_by_name("largest").name == "largest"


@pytest.mark.parametrize(("name", "taken"), [("top1", "built in"), ("largest", f"{__name__}:OURS")])
def test_two_metrics_of_one_name_are_an_error(installed: list[EntryPoint], name: str, taken: str) -> None:
    """Neither a built-in one nor another package's is replaced in silence; both are named."""
    installed += [point("largest"), point(name, "NOT_A_METRIC")]
    with pytest.raises(UsageError, match=f"register a metric named '{name}'\n  got: {taken} and .*:NOT_A_METRIC\n"):
        metric_by_name("mae")


@pytest.mark.parametrize(
    ("value", "words"), [("NOT_A_METRIC", "is registered as builtin_function_or_method"), ("GONE", "does not load")]
)
def test_a_broken_registration_hurts_only_its_own_name(installed: list[EntryPoint], value: str, words: str) -> None:
    """What cannot be used is an error when it is asked for, and no other metric is lost."""
    installed.append(point("broken", value))
    assert metric_by_name("mae").name == "mae"
    with pytest.raises(UsageError, match=f"the metric 'broken' {words}") as raised:
        metric_by_name("broken")
    assert f"{__name__}:{value}" in str(raised.value)


def test_the_default_is_top1_for_classes_only() -> None:
    """Integer labels and an output (n, classes) have a default, nothing else does."""
    default = resolve_metric(None, "int", (1, 3))
    assert default is not None
    assert default.name == "top1"
    for labels, shape in (("float", (1, 3)), ("none", (1, 3)), ("int", (1, 3, 3)), ("int", (1, 1)), ("int", (1,))):
        assert resolve_metric(None, labels, shape) is None


@pytest.mark.parametrize(
    ("metric", "labels", "shape", "words"),
    [
        ("topp1", "int", (1, 3), ["unknown metric 'topp1'", "did you mean 'top1'"]),
        ("f1", "none", (1, 3), ["'f1' needs labels, and the data has none", "min_agreement"]),
        ("mae", "none", (1, 1), ["needs labels", "or limit min_sqnr_db"]),
        ("top1", "object", (1, 3), ["cannot read these labels", "labels of type dict", "index of its class"]),
        ("mae", "object", (1, 3), ["cannot read these labels", "numbers of one shape", "give them as numbers"]),
        ("top5", "int", (1, 5), ["needs class labels", "int labels, output of shape (1, 5)", "at least 6 classes"]),
        ("f1", "int", (1, 3, 3), ["needs class labels", "at least 2 classes"]),
        ("top1", "int", (1, 1), ["needs class labels", "at least 2 classes"]),
        ("top1", "float", (2, 3), ["needs class labels", "float labels", "astype('int64')"]),
    ],
)
def test_a_metric_that_does_not_suit(metric: str, labels: str, shape: tuple[int, ...], words: list[str]) -> None:
    """The metric, the labels and the output, and how each could be another."""
    message = said(lambda: resolve_metric(metric, labels, shape, "dict"))
    assert [word for word in words if word not in message] == []


def test_labels_that_a_built_in_metric_cannot_read() -> None:
    """With the shapes that were found."""
    scores = np.zeros((4, 3), dtype=np.float32)
    assert "labels of shape (4, 3)" in said(lambda: BUILTIN["top1"].statistics(scores, np.zeros((4, 3), dtype=int)))
    assert "outputs (4, 3), labels (4,)" in said(lambda: BUILTIN["mae"].statistics(scores, np.zeros(4)))
