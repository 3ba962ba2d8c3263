"""Outputs with a metric each: their labels, scores and rows, and what a mark may say of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import jaccard_score

from pytest_quant.errors import DataError, QuantError, UsageError
from pytest_quant.marks.keys import check_scores, read
from pytest_quant.measure.choices import Head, choose_heads, choose_metric, choose_output, labels_of_head
from pytest_quant.measure.evaluation import OutputPair, evaluate
from pytest_quant.metrics import Metric, resolve_metric
from pytest_quant.metrics.drop import PairedStatistics
from pytest_quant.result import AccuracyResult
from pytest_quant.spec import Limits
from tests.unit.measure.test_accuracy_faults import INPUTS, check

N, STEP, CLASSES = 60, 7, 3


def maps(seed: int) -> dict[str, np.ndarray]:
    """Outputs of a mask (60, 3, 4) of scores and a depth (60, 4)."""
    random = np.random.default_rng(seed)
    return {
        "mask": random.normal(size=(N, CLASSES, 4)).astype(np.float32),
        "depth": random.normal(size=(N, 4)).astype(np.float32),
    }


def labels() -> np.ndarray:
    """A dict by output for each sample."""
    random, result = np.random.default_rng(0), np.empty(N, object)
    for place in range(N):
        result[place] = {"mask": random.integers(0, CLASSES, 4), "depth": random.normal(size=4)}
    return result


def chunks(candidate: dict[str, np.ndarray], given: np.ndarray | None) -> Iterator[OutputPair]:
    """Cut both sides into chunks of seven samples."""
    for start in range(0, N, STEP):
        rows = slice(start, start + STEP)
        ours, theirs = ({name: array[rows] for name, array in side.items()} for side in (maps(1), candidate))
        yield OutputPair(ours, theirs, None if given is None else given[rows], start, len(ours["mask"]))


def head(name: str, metric: str | Metric, kind: str, margin: float | None = None) -> Head:
    """Return an output with its metric."""
    found = resolve_metric(metric, kind, maps(1)[name].shape)
    assert found is not None
    return Head(name, found, margin)


HEADS = (head("mask", "miou", "int", 1.0), head("depth", "mae", "float"))


def test_each_output_is_scored_by_its_own_metric() -> None:
    """On its own labels, as scikit-learn and the formula have it, with the interval of the metric by itself."""
    result, given = evaluate(chunks(maps(2), labels()), None, output=(), heads=HEADS), labels()
    masks, depths = (np.stack([label[name] for label in given]) for name in ("mask", "depth"))
    mask, depth = result.by_head
    for side, iou, error in ((1, mask.reference, depth.reference), (2, mask.candidate, depth.candidate)):
        predicted = maps(side)["mask"].argmax(axis=1).ravel()
        assert iou == pytest.approx(100 * jaccard_score(masks.ravel(), predicted, average="macro"))
        assert error == pytest.approx(np.abs(maps(side)["depth"] - depths).mean())
    assert (mask.name, mask.metric, mask.unit, mask.n) == ("mask", "miou", "%", N)
    assert (depth.name, depth.metric, depth.unit, depth.n) == ("depth", "mae", "", N)
    assert [(row.p is None) for row in result.by_head] == [False, True]
    assert (result.metric, result.drop) == (None, None)
    alone = PairedStatistics(HEADS[1].metric)
    alone.add(maps(1)["depth"], maps(2)["depth"], depths, np.ones(N, bool), 0)
    assert depth.drop_ci == alone.add_to(AccuracyResult(n=N), None, 0.95).drop_ci


def test_one_output_alone_has_the_labels_as_they_are() -> None:
    """Arrays, or dicts by output."""
    by_output = evaluate(chunks(maps(2), labels()), None, output=(), heads=HEADS[1:])
    plain = np.stack([label["depth"] for label in labels()])
    assert evaluate(chunks(maps(2), plain), None, output=(), heads=HEADS[1:]).by_head == by_output.by_head


def test_a_broken_output_takes_nothing_from_the_other() -> None:
    """NaN in the depth of sample 5 leaves it out there, and a depth that is missing has a row without a score."""
    broken = maps(2)
    broken["depth"][5, 0] = np.nan
    mask, depth = evaluate(chunks(broken, labels()), None, output=(), heads=HEADS).by_head
    kept = np.delete(np.arange(N), 5)
    given = np.stack([label["depth"] for label in labels()])
    assert depth.reference == pytest.approx(np.abs(maps(1)["depth"] - given)[kept].mean())
    only_mask = {"mask": maps(2)["mask"]}
    other, missing = evaluate(chunks(only_mask, labels()), None, output=(), heads=HEADS).by_head
    assert (other, missing.drop, missing.name) == (mask, None, "depth")


def test_a_function_gets_the_labels_of_its_output() -> None:
    """A function gets the labels of its output for each side; without labels there is no score."""
    seen: list[Any] = []

    def own(outputs: np.ndarray, given: np.ndarray) -> np.ndarray:
        seen.append(given)
        return np.zeros(len(outputs))

    heads = [head("mask", Metric(own, name="own"), "int"), HEADS[1]]
    evaluate(chunks(maps(2), labels()), None, output=(), heads=heads)
    assert np.array_equal(np.concatenate(seen[::2]), np.stack([label["mask"] for label in labels()]))
    assert evaluate(chunks(maps(2), None), None, output=(), heads=heads).by_head[0].drop is None


def test_labels_by_output() -> None:
    """Numbers of one shape become an array; a sample that lacks an output is shown."""
    given = labels()
    assert labels_of_head(given, "mask", alone=False).shape == (N, 4)
    given[9] = {"mask": given[9]["mask"]}
    for broken in (given, np.zeros((N, 4)), np.array([0.5, "a"], object)):
        with pytest.raises(DataError, match=r"a label has none for output 'depth'(.|\n)*a dict by output"):
            labels_of_head(broken, "depth", alone=False)


BOTH = {"mask": INPUTS, "depth": INPUTS}


def test_a_check_with_a_metric_for_each_output() -> None:
    """There is no score of all, and a limit is in the unit of its output."""
    given = {"mask": np.arange(len(INPUTS)) % 2, "depth": np.zeros_like(INPUTS)}
    metric = {"mask": "top1", "depth": "mae"}
    asked, data = check(Limits(max_drop=(("depth", 0.5),)), metric=metric, labels=given)
    heads = choose_heads(asked, data, BOTH)
    assert choose_metric(asked, data, BOTH, choose_output(asked, BOTH)) is None
    assert [(each.name, each.metric.name, each.margin) for each in heads] == [
        ("mask", "top1", None),
        ("depth", "mae", 0.5),
    ]
    assert choose_heads(*check(labels=given["mask"]), BOTH) == ()


@pytest.mark.parametrize(
    ("metric", "given", "words"),
    [
        ({"mask": "top1", "dept": "mae"}, {"mask": np.zeros(8, int)}, "did you mean 'depth'?"),
        ({"mask": "top1", "depth": "mae"}, {"mask": np.zeros(8, int)}, "a label has none for output 'depth'"),
        ({"mask": "top1", "depth": "mae"}, np.zeros(8, int), "a label has none for output 'mask'"),
        ({"mask": "top1", "depth": "mae"}, None, "the metric 'top1' needs labels"),
        ({"depth": "f1"}, {"depth": np.zeros((8, 2)), "mask": np.zeros(8, int)}, "'f1' needs class labels"),
    ],
)
def test_labels_and_outputs_that_do_not_fit(metric: dict[str, str], given: Any, words: str) -> None:
    """An error before anything is measured."""
    sizes = {8: len(INPUTS)}
    if isinstance(given, dict):
        given = {name: np.resize(each, (sizes[8], *each.shape[1:])) for name, each in given.items()}
    elif given is not None:
        given = np.resize(given, sizes[8])
    asked, data = check(metric=metric, labels=given)
    with pytest.raises(QuantError) as raised:
        choose_heads(asked, data, BOTH) if choose_output(asked, BOTH) else None
    assert words in str(raised.value)


def test_a_mark_names_a_metric_for_each_output() -> None:
    """Each is read as one for all is."""
    assert read({"metric": {"mask": "miou", "depth": "mae"}}).metric == {"mask": "miou", "depth": "mae"}
    for wrong, words in (
        ({}, "metric must be a name or a Metric"),
        ({"mask": 3}, r"metric\['mask'\] must be a name or a Metric"),
        ({"mask": {"a": "mae"}}, r"metric\['mask'\] must be a name or a Metric"),
        ({"mask": "miuo"}, "did you mean 'miou'"),
        ({3: "miou"}, "metric must be a name or a Metric"),
    ):
        with pytest.raises(UsageError, match=words):
            read({"metric": wrong})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"max_drop": 1.0}, "write max_drop={'mask': 1.0, 'depth': 1.0}"),
        ({"max_drop": {"overall": 1.0}}, "each output has its own"),
        ({"max_drop": {"mask": 1.0, "label": 1.0}}, "each output has its own"),
        ({"min_accuracy": 90}, "min_accuracy is on the score of one metric"),
        ({"max_drop": {"mask": 1.0, "dept": 1.0}}, "did you mean 'depth'?"),
    ],
)
def test_limits_on_one_score_are_refused(values: dict[str, object], words: str) -> None:
    """Each output has its own, and a limit names it."""
    metric: dict[str, str | Metric] = {"mask": "miou", "depth": "mae"}
    check_scores({"max_drop": {"mask": 1.0}}, metric)
    check_scores({}, metric)
    with pytest.raises(UsageError) as raised:
        check_scores(values, metric)
    assert words in str(raised.value)


def test_a_limit_on_an_output_needs_its_metric() -> None:
    """With one metric for all there is no score of a single output."""
    with pytest.raises(UsageError, match="limits an output 'mask', which has no metric of its own"):
        check_scores({"max_drop": {"mask": 1.0}}, "top1")
    check_scores({"max_drop": {"overall": 1.0, "label": 2.0, "group": 3.0}}, "top1")
