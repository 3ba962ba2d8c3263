"""Recall at k beside torchmetrics, forms of its labels, and names of metrics that hold a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchmetrics.functional.retrieval import retrieval_recall

from pytest_quant.metrics import ResolvedMetric, metric_by_name
from pytest_quant.metrics.drop import PairedStatistics
from pytest_quant.result import AccuracyResult
from tests.unit.metrics.scoring import said


def recalled(k: int, outputs: np.ndarray, labels: Any) -> np.ndarray:
    """Return the share of each sample."""
    metric = metric_by_name(f"recall@{k}")
    assert isinstance(metric, ResolvedMetric)
    return metric.statistics(outputs, labels)


def as_objects(labels: list[Any]) -> np.ndarray:
    """Return labels of different lengths as the data has them."""
    result = np.empty(len(labels), object)
    for place, label in enumerate(labels):
        result[place] = label
    return result


@given(seed=st.integers(0, 10**6), k=st.integers(1, 11))
@settings(max_examples=100, deadline=None)
def test_it_is_that_of_torchmetrics(seed: int, k: int) -> None:
    """In each form of the labels: a mask, lists, and lists of one length that -1 fills up."""
    random = np.random.default_rng(seed)
    outputs = random.permutation(60).reshape(5, 12).astype(np.float32)
    mask = random.random((5, 12)) < 0.3
    mask[np.arange(5), random.integers(0, 12, 5)] = True
    lists = [np.flatnonzero(row).tolist() for row in mask]
    filled = np.full((5, 13), -1)
    for row, items in zip(filled, lists, strict=True):
        row[: len(items)] = items
    rows = [(torch.tensor(scores), torch.tensor(wanted)) for scores, wanted in zip(outputs, mask, strict=True)]
    expected = [float(retrieval_recall(*row, top_k=k)) for row in rows]
    for labels in (mask.astype(int), as_objects(lists), filled):
        assert recalled(k, outputs, labels) == pytest.approx(expected, abs=1e-6)


def test_one_index_is_right_or_wrong() -> None:
    """Of equal scores the lower index ranks first, so that a dead output does not find everything."""
    labels = np.arange(6)
    assert recalled(2, np.zeros((6, 6)), labels).tolist() == [1, 1, 0, 0, 0, 0]
    assert recalled(1, np.eye(6), labels[:, None]).tolist() == [1.0] * 6


@pytest.mark.parametrize(
    ("outputs", "labels", "words"),
    [
        (np.zeros((2, 10)), np.array([0, 10]), "whole numbers from 0 to 9"),
        (np.zeros((2, 10)), as_objects([[1], ["a"]]), "a label of recall@k is no index"),
        (np.zeros((2, 10)), as_objects([[1], 0.5]), "a label of recall@k is no index"),
        (np.zeros((2, 3)), np.array([0, 1]), "more than 3 items"),
        (np.zeros((2, 10, 2)), np.array([0, 1]), "an output (n, items)"),
    ],
)
def test_what_cannot_be_recalled(outputs: np.ndarray, labels: np.ndarray, words: str) -> None:
    """Items that do not exist, and a k that would find everything."""
    assert words in said(lambda: recalled(3, outputs, labels))


def test_a_sample_without_a_relevant_item_is_named() -> None:
    """Nothing of nothing is no share, and nobody can say what it counts."""
    metric = metric_by_name("recall@2")
    assert isinstance(metric, ResolvedMetric)
    scores, labels = PairedStatistics(metric), as_objects([[1], [], [2]])
    outputs = np.zeros((3, 5))
    message = said(lambda: scores.add(outputs, outputs, labels, np.ones(3, bool), 40))
    assert "nan for sample 41" in message


def test_single_items_are_answers() -> None:
    """Right or wrong, so that McNemar's test applies, as of top-k."""
    random = np.random.default_rng(0)
    metric = metric_by_name("recall@3")
    assert isinstance(metric, ResolvedMetric)
    scores = PairedStatistics(metric)
    reference, candidate = random.normal(size=(2, 90, 9))
    scores.add(reference, candidate, random.integers(0, 9, 90), np.ones(90, bool), 0)
    assert scores.add_to(AccuracyResult(n=90), None, 0.95).p_value is not None


@pytest.mark.parametrize(
    ("name", "same"), [("match@0.5", "match@0.50"), ("recall@10", "recall@10.0"), ("match@1", "match@1.0")]
)
def test_a_number_has_one_name(name: str, same: str) -> None:
    """By which series are told apart."""
    assert metric_by_name(same).name == metric_by_name(name).name == name


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        *(("match@0", "match@0.5"), ("match@1.1", "match@0.5"), ("match", "match@0.5"), ("match@", "match@0.5")),
        *(("recall@0", "recall@10"), ("recall@2.5", "recall@10"), ("recall@-1", "recall@10")),
        *(("map@0.5", "map50"), ("mAP", "map"), ("iou", "miou"), ("match@nan", "match@0.5"), ("recal@5", "recall@10")),
    ],
)
def test_a_number_that_none_has_names_the_nearest(name: str, nearest: str) -> None:
    """As an unknown name does."""
    assert f"did you mean '{nearest}'?" in said(lambda: metric_by_name(name))
