"""Labels and groups have the scores, the intervals and the p of their own samples."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import f1_score, roc_auc_score

from pytest_quant import Metric
from pytest_quant.metrics import ResolvedMetric
from pytest_quant.metrics.builtin import BUILTIN
from pytest_quant.metrics.drop import PairedStatistics
from pytest_quant.metrics.metric import resolve_wrapped
from pytest_quant.metrics.parts import Parts, add_parts
from pytest_quant.result import AccuracyResult, TaskScore
from pytest_quant.stats.paired import tango_interval

Array = NDArray[Any]


def one_hot(classes: Array, k: int = 3) -> Array:
    """Return scores (n, k) whose largest is that of the class."""
    return np.eye(k, dtype=np.float32)[classes]


def scored(
    metric: ResolvedMetric, reference: Array, candidate: Array, labels: Array, parts: Parts, sound: Array | None = None
) -> AccuracyResult:
    """Score in chunks of 7 samples, as an evaluation does."""
    statistics = PairedStatistics(metric)
    sound = np.ones(len(labels), bool) if sound is None else sound
    for start in range(0, len(labels), 7):
        cut = slice(start, start + 7)
        statistics.add(reference[cut], candidate[cut], labels[cut], sound[cut], start)
    whole = statistics.add_to(AccuracyResult(n=len(labels)), None, 0.95, parts.clusters)
    return add_parts(whole, statistics, parts)


def answers() -> tuple[Array, Array, Array]:
    """Return labels 0 and 2, and answers: of label 0 all 60 right, 9 then wrong; of label 2 of 40 3 lost and 1 won."""
    labels = np.repeat([0, 2], [60, 40])
    reference, candidate = labels.copy(), labels.copy()
    candidate[:9] = 1
    candidate[60:63] = 1
    reference[63] = 1
    order = np.random.default_rng(0).permutation(100)
    return labels[order], one_hot(reference[order]), one_hot(candidate[order])


def test_a_label_has_the_interval_of_its_own_lost_and_won_answers() -> None:
    """9 of 60 lost: 15 points; of the other 40 3 lost and 1 won: 5 points. A label without samples has no row."""
    labels, reference, candidate = answers()
    result = scored(BUILTIN["top1"], reference, candidate, labels, Parts(label=20.0))
    first, second, together = result.by_label
    assert [(row.name, row.n, row.drop) for row in (first, second)] == [("0", 60, 15.0), ("2", 40, 5.0)]
    assert (first.reference, first.candidate) == (100.0, 85.0)
    for row, lost, won in ((first, 9, 0), (second, 3, 1)):
        assert row.drop_ci is not None
        ends = [100.0 * end for end in tango_interval(lost, won, row.n)]
        assert [row.drop_ci.low, row.drop_ci.high] == pytest.approx(ends)
    assert (together.name, together.n) == ("", 60)
    assert result.by_group == ()


def test_a_group_has_the_rows_of_its_samples_and_keeps_their_order() -> None:
    """The groups are those of the samples, whatever the chunks are; no row is on all those that are open if none is."""
    labels, reference, candidate = answers()
    groups = np.where(labels == 0, "day", "night")
    result = scored(BUILTIN["top1"], reference, candidate, labels, Parts(group=99.0, groups=groups))
    assert [(row.name, row.n, row.drop) for row in result.by_group] == [("day", 60, 15.0), ("night", 40, 5.0)]
    assert all(row.p == 0.5 for row in result.by_group)
    assert result.drop_ci == scored(BUILTIN["top1"], reference, candidate, labels, Parts()).drop_ci


def test_groups_without_a_limit_are_clusters() -> None:
    """Whose answers go together: the interval is wider than of single samples, and no group has a row."""
    labels, reference, candidate = answers()
    groups = np.argmax(candidate, axis=1).astype(str)
    alone = scored(BUILTIN["top1"], reference, candidate, labels, Parts())
    result = scored(BUILTIN["top1"], reference, candidate, labels, Parts(groups=groups))
    assert result.by_group == ()
    assert alone.drop_ci is not None
    assert result.drop_ci is not None
    assert result.drop_ci.high - result.drop_ci.low > alone.drop_ci.high - alone.drop_ci.low


def test_a_group_that_was_left_out_of_the_score_is_left_out_of_its_row() -> None:
    """Samples whose output is not finite have no error: the first two of the five of a group."""
    errors, labels = np.arange(10.0)[:, None], np.zeros((10, 1))
    sound = np.arange(10) >= 2
    groups = np.repeat(["a", "b"], 5)
    result = scored(BUILTIN["mae"], errors, errors + 1.0, labels, Parts(group=1.0, groups=groups), sound)
    assert [(row.name, row.n, row.drop) for row in result.by_group if row.name] == [("a", 3, 1.0), ("b", 5, 1.0)]


def test_equal_samples_count_once_in_a_part() -> None:
    """Of 60 copies of 3 pictures the interval is that of 3 samples."""
    labels, reference, candidate = np.zeros(60, int), one_hot(np.zeros(60, int)), one_hot(np.zeros(60, int))
    inputs = np.arange(60) % 3
    result = scored(BUILTIN["top1"], reference, candidate, labels, Parts(label=1.0, inputs=inputs))
    (low, high), ends = tango_interval(0, 0, 3), result.by_label[0].drop_ci
    assert ends is not None
    assert [ends.low, ends.high] == pytest.approx([100.0 * low, 100.0 * high])


@pytest.mark.parametrize("name", ["f1", "macro f1 of scikit-learn"])
def test_one_label_has_right_answers_in_place_of_f1(name: str) -> None:
    """F1 of one label's samples would fall if the same number of wrong answers named more classes."""
    labels = np.repeat([0, 1, 2], 20)
    reference, candidate = labels.copy(), labels.copy()
    reference[:4], candidate[:4] = 1, [1, 2, 1, 2]
    metric = BUILTIN["f1"] if name == "f1" else resolve_wrapped(Metric(partial(f1_score, average="macro")))
    result = scored(metric, one_hot(reference), one_hot(candidate), labels, Parts(label=1.0))
    assert [(row.name, row.drop) for row in result.by_label if row.name] == [("0", 0.0), ("1", 0.0), ("2", 0.0)]
    assert {(row.metric, row.unit) for row in result.by_label} == {("top1", "%")}


def test_a_group_for_which_the_metric_is_not_defined_has_no_score() -> None:
    """The area under the curve of samples of one class; a group with both has one."""
    random = np.random.default_rng(1)
    labels, scores = np.r_[np.zeros(4, int), random.integers(0, 2, 40)], random.random((44, 1))
    groups = np.repeat(["few", "many"], [4, 40])
    result = scored(resolve_wrapped(Metric(roc_auc_score)), scores, scores, labels, Parts(group=1.0, groups=groups))
    few, many = result.by_group[:2]
    assert few == TaskScore("few", 4, None, None, None)
    assert (many.name, many.drop) == ("many", 0.0)
