"""Metrics on labels that are texts or annotations, and metrics that cannot read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from pytest_quant.data.labels import as_objects
from pytest_quant.errors import UsageError
from pytest_quant.measure.accuracy import OutputPair, evaluate
from pytest_quant.metrics import Metric, ResolvedMetric, resolve_metric
from pytest_quant.result import AccuracyResult

ALPHABET = " abcd"
WORDS = ["ab cd", "a", "dd dd dd", "", "bad cab", "abc", "c c", "dab"]


def readable(texts: list[str]) -> np.ndarray:
    """Outputs (n, 8, 5) of a recognizer that reads `texts`: one-hot over the alphabet, padded with blanks."""
    indices = [[ALPHABET.index(char) for char in text.ljust(8)] for text in texts]
    return np.eye(len(ALPHABET), dtype=np.float32)[indices]


def read(outputs: np.ndarray) -> list[str]:
    """The texts of outputs."""
    return ["".join(ALPHABET[index] for index in row).rstrip() for row in outputs.argmax(axis=2)]


def distance(one: str, other: str) -> int:
    """Levenshtein's distance."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row, above = [i], row
        for j, b in enumerate(other, 1):
            row.append(min(row[-1] + 1, above[j] + 1, above[j - 1] + (a != b)))
    return row[-1]


def edits(outputs: np.ndarray, labels: np.ndarray) -> list[float]:
    """Edits of each sample, as a user would write it."""
    return [distance(text, label) for text, label in zip(read(outputs), labels, strict=True)]


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


def test_a_character_error_rate_reads_the_texts() -> None:
    """Edits over all characters, as torchmetrics counts them."""
    text = pytest.importorskip("torchmetrics.functional.text", reason="the tests' extra installs torchmetrics")
    found_texts = ["ab cd", "b", "dd dd d", "a", "bad cab", "bc", "c cc", "dab"]
    scale = len(WORDS) / sum(map(len, WORDS))
    metric = Metric(edits, better="lower", unit="", scale=scale, name="cer")
    found = judged(metric, readable(WORDS), readable(found_texts), WORDS)
    assert found.reference == 0.0
    assert found.drop == pytest.approx(float(text.char_error_rate(found_texts, WORDS)))
    assert found.n == len(WORDS)


def test_a_word_error_rate_of_right_and_wrong_is_tested_exactly() -> None:
    """Scores of 0 and 1 on texts have McNemar's p like those on classes."""
    wrong = [*WORDS[:5], "a", "b", "c"]
    metric = Metric(lambda o, y: [text == label for text, label in zip(read(o), y, strict=True)], name="exact")
    found = judged(metric, readable(WORDS), readable(wrong), WORDS)
    assert (found.reference, found.candidate, found.discordant) == (100.0, 62.5, 3)
    assert found.p_value == pytest.approx(0.25)  # two-sided: 2 / 2^3


def overlaps(outputs: np.ndarray, labels: np.ndarray) -> list[float]:
    """The best intersection over union of each sample's one predicted box with any that is annotated."""
    annotated = (label["boxes"] for label in labels)
    return [
        max((overlap(box, one) for one in boxes), default=0.0) for box, boxes in zip(outputs, annotated, strict=True)
    ]


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union of two boxes (left, top, right, bottom)."""
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    common = float(np.prod(np.maximum(sides, 0)))
    return common / (float(np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2])) - common)


def test_a_detection_metric_reads_annotations_of_any_length() -> None:
    """Boxes moved by half their width overlap by a third; a sample with nothing annotated scores 0."""
    boxes = np.array([[0, 0, 2, 2], [4, 4, 6, 6], [0, 0, 2, 2], [8, 0, 10, 2]], np.float32)
    annotated: list[Any] = [
        {"boxes": boxes[[0, 1]], "names": ["cat", "dog"]},
        {"boxes": boxes[[3, 1, 0]], "names": ["cat", "dog", "cat"]},
        {"boxes": boxes[:0], "names": []},
        {"boxes": boxes[[3]], "names": ["dog"]},
    ]
    found = judged(Metric(overlaps, name="iou"), boxes, boxes + np.array([1, 0, 1, 0], np.float32), annotated)
    assert found.reference == pytest.approx(75.0)
    assert found.candidate == pytest.approx(100 * (3 / 3) / 4)


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


@pytest.mark.parametrize(("name", "words"), [("top1", "index of its class"), ("mae", "numbers of one shape")])
def test_a_built_in_metric_names_the_type_that_it_cannot_read(name: str, words: str) -> None:
    """And what would be right, and that a metric of one's own can."""
    with pytest.raises(UsageError, match=f"'{name}' cannot read these labels") as raised:
        resolve(name, np.zeros((4, 5)), "dict")
    assert "labels of type dict" in str(raised.value)
    assert words in str(raised.value)
    assert "metric=Metric(fn" in str(raised.value)


def test_torchmetrics_takes_no_objects() -> None:
    """Told before anything is measured, not by the last line of a traceback of torch."""
    metrics = pytest.importorskip("torchmetrics", reason="the tests' extra installs torchmetrics")
    with pytest.raises(UsageError, match="cannot read these labels"):
        resolve(Metric(metrics.Accuracy(task="multiclass", num_classes=5)), np.zeros((4, 5)))


def test_objects_suggest_no_metric() -> None:
    """Only class indices have a default."""
    assert resolve(None, np.zeros((4, 5))) is None
