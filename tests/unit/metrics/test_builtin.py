"""What the built-in metrics declare, and F1 where classes are missing."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics

from pytest_quant.metrics.builtin import BUILTIN, macro_f1_pct


@pytest.mark.parametrize(
    ("name", "better", "unit"),
    [
        ("top1", "higher", "%"),
        ("top5", "higher", "%"),
        ("f1", "higher", "%"),
        ("cosine", "higher", ""),
        ("mae", "lower", ""),
        ("rmse", "lower", ""),
    ],
)
def test_each_metric_says_which_way_is_better(name: str, better: str, unit: str) -> None:
    """Scores higher, errors lower; shares are in percent."""
    assert (BUILTIN[name].better, BUILTIN[name].unit) == (better, unit)


def test_these_are_all() -> None:
    """Each under its own name."""
    assert {name: metric.name for name, metric in BUILTIN.items()} == {
        name: name for name in ("top1", "top5", "f1", "mae", "rmse", "cosine")
    }


@pytest.mark.parametrize(
    ("predicted", "labels"),
    [([0, 2, 2, 5], [0, 2, 5, 5]), ([1, 1, 3], [3, 3, 1]), ([4], [4]), ([0, 1], [2, 2])],
    ids=["gaps", "all wrong", "one", "never predicted"],
)
def test_f1_is_a_mean_over_the_classes_that_occur(predicted: list[int], labels: list[int]) -> None:
    """As scikit-learn has it; a class that is neither predicted nor a label counts for nothing."""
    expected = 100 * sklearn.metrics.f1_score(labels, predicted, average="macro", zero_division=0)
    assert macro_f1_pct(np.array([predicted, labels]).T) == pytest.approx(expected)
