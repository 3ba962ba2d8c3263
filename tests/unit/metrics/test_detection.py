"""Metrics of boxes: average precision beside pycocotools, boxes that are kept beside a search of all matches."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from pytest_quant.metrics import ResolvedMetric, metric_by_name
from pytest_quant.metrics.drop import PairedStatistics
from pytest_quant.result import AccuracyResult
from tests.unit.metrics.scoring import said

Outputs = dict[str, np.ndarray]


def metric(name: str) -> ResolvedMetric:
    """Return a metric of the package."""
    found = metric_by_name(name)
    assert isinstance(found, ResolvedMetric)
    return found


def as_labels(pictures: list[dict[str, Any]]) -> np.ndarray:
    """Return the labels as the data has them."""
    labels = np.empty(len(pictures), object)
    for place, label in enumerate(pictures):
        labels[place] = label
    return labels


def corners(random: np.random.Generator, n: int, grid: int) -> np.ndarray:
    """Boxes (n, 4) on a grid, so that many overlap by equal shares, and some have no area."""
    ends = random.integers(0, grid, (n, 2, 2)).astype(float)
    return np.concatenate([ends.min(axis=1), ends.max(axis=1)], axis=1)


def detected(seed: int, *, crowds: bool, n: int = 6, k: int = 150, classes: int = 3) -> tuple[Outputs, np.ndarray]:
    """Return detections and labels: scores that tie, more than 100 of a class, classes without any, empty pictures."""
    random = np.random.default_rng(seed)
    n, k, classes, grid = (int(random.integers(1, most + 1)) for most in (n, k, classes, 40))
    found = {
        "boxes": corners(random, n * k, grid).reshape(n, k, 4),
        "scores": random.integers(0, 21, (n, k)) / 20,
        "classes": random.integers(-1, classes, (n, k)),
    }
    pictures = [
        {"boxes": corners(random, m, grid), "labels": random.integers(0, classes + 1, m)}
        | ({"iscrowd": random.integers(0, 2, m)} if crowds else {})
        for m in random.integers(0, 9, n)
    ]
    return found, as_labels(pictures)


def as_coco(outputs: Outputs, labels: np.ndarray) -> tuple[float, float]:
    """Score by pycocotools in percent: at ten thresholds, and at 0.5; -100 if nothing is to be found."""
    truths, found = [], []
    for picture, label in enumerate(labels):
        crowd = label.get("iscrowd", np.zeros(len(label["labels"])))
        for box, name, many in zip(label["boxes"], label["labels"], crowd, strict=True):
            truths.append({"image_id": picture, "category_id": int(name), "bbox": _sized(box), "iscrowd": int(many)})
        for box, score, name in zip(*(each[picture] for each in outputs.values()), strict=True):
            if name >= 0:
                found.append({"image_id": picture, "category_id": int(name), "bbox": _sized(box), "score": score})
    sides = []
    for rows in (truths, found):
        side = COCO()
        side.dataset = {
            "images": [{"id": picture} for picture in range(len(labels))],
            "categories": [{"id": name} for name in range(10)],
            "annotations": [
                {"iscrowd": 0, **row, "id": place, "area": row["bbox"][2] * row["bbox"][3]}
                for place, row in enumerate(rows, 1)
            ],
        }
        sides.append(side)
    with contextlib.redirect_stdout(io.StringIO()):
        for side in sides:
            side.createIndex()
        scores = COCOeval(*sides, "bbox")
        scores.evaluate()
        scores.accumulate()
        scores.summarize()
    return 100 * float(scores.stats[0]), 100 * float(scores.stats[1])


def _sized(box: np.ndarray) -> list[float]:
    left, top, right, bottom = map(float, box)
    return [left, top, right - left, bottom - top]


def score(name: str, outputs: Mapping[str, np.ndarray], labels: np.ndarray) -> float:
    """Score in two chunks, as the evaluation does."""
    cuts = [rows for rows in np.array_split(np.arange(len(labels)), 2) if len(rows)]
    parts = [metric(name).statistics({key: each[rows] for key, each in outputs.items()}, labels[rows]) for rows in cuts]
    return metric(name).aggregate(np.concatenate(parts))


@given(seed=st.integers(0, 10**6), crowds=st.booleans())
@settings(max_examples=100, deadline=None)
def test_average_precision_is_that_of_pycocotools(seed: int, crowds: bool) -> None:
    """On equal scores, equal overlaps, boxes without area, crowds, classes that nobody has and empty pictures."""
    outputs, labels = detected(seed, crowds=crowds)
    for name, expected in zip(("map", "map50"), as_coco(outputs, labels), strict=True):
        value = score(name, outputs, labels)
        assert value == pytest.approx(expected, abs=1e-9) if expected >= 0.0 else np.isnan(value)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_pictures_that_are_drawn_weigh_as_often(seed: int) -> None:
    """A resample scored by weights is what pycocotools gives for a set that holds its pictures so many times."""
    outputs, labels = detected(seed, crowds=bool(seed % 2))
    random = np.random.default_rng(seed)
    # Of equal scores that of the earlier picture is first, and the order is another in the set of copies.
    outputs["scores"] = random.permutation(outputs["scores"].size).reshape(outputs["scores"].shape)
    average = metric("map")
    assert average.prepare is not None
    drawn = random.integers(0, len(labels), len(labels))
    value = average.prepare(average.statistics(outputs, labels))(drawn)
    expected, _ = as_coco({name: each[drawn] for name, each in outputs.items()}, labels[drawn])
    assert value == pytest.approx(expected, abs=1e-9) if expected >= 0.0 else np.isnan(value)


def test_scores_of_all_classes_give_a_box_its_best() -> None:
    """Two outputs, boxes and scores (n, k, classes), are three of which the class is the largest score."""
    (outputs, labels), random = detected(3, crowds=False), np.random.default_rng(3)
    scores = random.random((*outputs["scores"].shape, 4))
    three = {"boxes": outputs["boxes"], "scores": scores.max(axis=2), "classes": scores.argmax(axis=2).astype(float)}
    assert score("map", {"boxes": outputs["boxes"], "scores": scores}, labels) == score("map", three, labels) > 0.0


BOX = np.array([[[0.0, 0, 10, 10]]])
TRUTH = as_labels([{"boxes": [[0, 0, 10, 10]], "labels": [1]}])


@pytest.mark.parametrize(
    ("box", "label", "expected"),
    [
        ([0, 0, 10, 10], {}, 100.0),
        ([10, 10, 0, 0], {}, 0.0),
        ([5, 5, 5, 5], {}, 0.0),
        ([5, 5, 5, 5], {"boxes": [[5, 5, 5, 5]]}, 0.0),
        ([0, 0, 10, 10], {"labels": [7]}, 0.0),
        ([0, 0, 10, 10], {"boxes": [], "labels": []}, np.nan),
        ([0, 0, 10, 10], {"iscrowd": [1]}, np.nan),
    ],
)
def test_what_bad_boxes_score(box: list[float], label: dict[str, Any], expected: float) -> None:
    """A box without area, or with corners in another order, overlaps nothing; nothing to find is no score."""
    outputs = {"boxes": np.array([[box]], float), "scores": np.ones((1, 1)), "classes": np.ones((1, 1))}
    assert score("map", outputs, as_labels([TRUTH[0] | label])) == pytest.approx(expected, nan_ok=True)


def test_a_picture_without_a_detection_misses_its_boxes() -> None:
    """A class below 0 fills up an output; half of the boxes are found, at every point up to a recall of 0.5."""
    outputs = {"boxes": np.repeat(BOX, 2, axis=0), "scores": np.ones((2, 1)), "classes": np.array([[1], [-1]])}
    assert score("map", outputs, np.repeat(TRUTH, 2)) == pytest.approx(100 * 51 / 101)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_of_equal_overlaps_the_later_box_is_taken(order: list[int]) -> None:
    """As by pycocotools: the first detection lies between both boxes, the second one near a single one of them."""
    truth = np.array([[0.0, 0, 10, 10], [4, 0, 14, 10]])[order]
    found = {"boxes": np.array([[[2.0, 0, 12, 10], [6, 0, 16, 10]]]), "scores": np.array([[0.9, 0.8]])}
    outputs = found | {"classes": np.ones((1, 2))}
    labels = as_labels([{"boxes": truth, "labels": [1, 1]}])
    assert score("map50", outputs, labels) == pytest.approx(as_coco(outputs, labels)[1], abs=1e-9)


@pytest.mark.parametrize(("rank", "expected"), [(100, 1.0), (101, 0.0)])
def test_a_hundred_detections_of_a_class_count(rank: int, expected: float) -> None:
    """The only hit has a precision of 1 / 100 at rank 100, and is not looked at behind it."""
    boxes = np.tile([50.0, 50, 60, 60], (1, 120, 1))
    boxes[0, rank - 1] = BOX[0, 0]
    outputs = {"boxes": boxes, "scores": np.linspace(1, 0, 120)[None], "classes": np.ones((1, 120))}
    assert score("map", outputs, TRUTH) == pytest.approx(expected, abs=1e-9)


def test_no_ground_truth_at_all_is_said() -> None:
    """There is no score then, and a note says what to do."""
    outputs = {"boxes": BOX, "scores": np.ones((1, 1)), "classes": np.ones((1, 1))}
    scores = PairedStatistics(metric("map"))
    scores.add(outputs, outputs, as_labels([{"boxes": [], "labels": []}]), np.ones(1, bool), 0)
    result = scores.add_to(AccuracyResult(n=1), 1.0, 0.95)
    assert (result.drop, "metric 'map' gave nan for the reference" in result.note) == (None, True)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ({"boxes": [[0, 0, 10, 10]]}, "a dict of boxes and labels for each picture"),
        ([[0, 0, 10, 10]], "a dict of boxes and labels for each picture"),
        (3, "a dict of boxes and labels for each picture"),
        ({"boxes": [[0, 0, 10]], "labels": [1]}, "'boxes': (m, 4)"),
        ({"boxes": [[0, 0, 10, 10]], "labels": [1, 1]}, "'boxes': (m, 4)"),
        ({"boxes": [[0, 0, 10, 10]], "labels": ["cat"]}, "classes from 0 on"),
        ({"boxes": [[0, 0, 10, 10]], "labels": [-1]}, "classes from 0 on"),
        ({"boxes": [[0, 0, 10, 10]], "labels": [0.5]}, "classes from 0 on"),
        ({"boxes": [[50, 50, 10, 10]], "labels": [1]}, "x + width, y + height"),
        ({"boxes": [[0, 0, np.nan, 10]], "labels": [1]}, "x1 <= x2"),
    ],
)
def test_labels_that_are_none(label: object, words: str) -> None:
    """The error shows the label, and the form of a good one."""
    outputs = {"boxes": BOX, "scores": np.ones((1, 1)), "classes": np.ones((1, 1))}
    labels = np.empty(1, object)
    labels[0] = label
    assert words in said(lambda: metric("map").statistics(outputs, labels))


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({"boxes": BOX}, "reads boxes and their scores and classes, in this order"),
        ({"scores": np.ones((1, 1)), "boxes": BOX, "classes": np.ones((1, 1))}, "'scores' (1, 1), 'boxes' (1, 1, 4)"),
        ({"boxes": BOX, "scores": np.ones((1, 2)), "classes": np.ones((1, 2))}, "scores (n, k) and classes (n, k)"),
        ({"boxes": BOX, "scores": np.ones((1, 1)), "classes": np.full((1, 1), 0.7)}, "classes (n, k), whole numbers"),
        ({"boxes": BOX, "scores": np.ones((1, 1)), "classes": np.ones((1, 1)), "n": np.ones(1)}, "output=['boxes', "),
    ],
)
def test_outputs_that_are_no_detections(outputs: Outputs, words: str) -> None:
    """The error shows their shapes, and those that a detector has."""
    assert words in said(lambda: metric("map").statistics(outputs, TRUTH))


@given(seed=st.integers(0, 10**6), overlap=st.sampled_from([0.3, 0.5, 0.75, 1.0]))
@settings(max_examples=60, deadline=None)
def test_boxes_that_are_kept_are_those_of_a_search(seed: int, overlap: float) -> None:
    """One box after the other, the best score first, takes the free one of its class that it overlaps most."""
    reference, _ = detected(seed, crowds=False, k=30)
    candidate = {name: each.copy() for name, each in reference.items()}
    random = np.random.default_rng(seed)
    candidate["boxes"] += random.integers(0, 2, candidate["boxes"].shape) * random.integers(0, 3)
    candidate["scores"] = np.clip(candidate["scores"] + random.normal(0, 0.2, candidate["scores"].shape), 0, 1)
    kept = metric(f"match@{overlap}")
    rows = kept.statistics(candidate, reference)
    for picture, (found, wanted) in enumerate(rows):
        ours, theirs = (_confident(side, picture) for side in (reference, candidate))
        assert (found, wanted) == (_search(theirs, ours, overlap), len(ours))
    if rows[:, 1].any():
        assert kept.aggregate(rows) == pytest.approx(100 * rows[:, 0].sum() / rows[:, 1].sum())
        assert kept.aggregate(kept.statistics(reference, reference)) == pytest.approx(_of_itself(reference), abs=1e-9)


def _of_itself(side: Outputs) -> float:
    boxes = [box for picture in range(len(side["boxes"])) for _, _, box in _confident(side, picture)]
    return 100.0 * sum(_overlap(box, box) == 1.0 for box in boxes) / len(boxes)


def _confident(side: Outputs, picture: int) -> list[tuple[float, int, list[float]]]:
    rows = zip(side["scores"][picture], side["classes"][picture], side["boxes"][picture].tolist(), strict=True)
    return [(float(score), int(name), box) for score, name, box in rows if score >= 0.5 and name >= 0]


def _overlap(one: list[float], other: list[float]) -> float:
    sides = [min(one[at + 2], other[at + 2]) - max(one[at], other[at]) for at in (0, 1)]
    both = sides[0] * sides[1] if min(sides) > 0 else 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return both / (sum(areas) - both) if both else 0.0


def _search(found: list[Any], wanted: list[Any], least: float) -> int:
    free = sorted(wanted, key=lambda row: -row[0])
    for _, name, box in sorted(found, key=lambda row: -row[0]):
        near = [(_overlap(box, other), place) for place, (_, own, other) in enumerate(free) if own == name]
        best = max(near, default=(0.0, 0))
        if best[0] >= min(least, 1 - 1e-10):
            del free[best[1]]
    return len(wanted) - len(free)


def test_nothing_to_keep_is_no_score() -> None:
    """A reference that is sure of nothing counts nothing; without a box at all there is no share."""
    unsure = {"boxes": BOX, "scores": np.full((1, 1), 0.49), "classes": np.ones((1, 1))}
    kept = metric("match@0.5")
    assert kept.statistics(unsure, unsure).tolist() == [[0.0, 0.0]]
    assert np.isnan(kept.aggregate(kept.statistics(unsure, unsure)))


@pytest.mark.parametrize("name", ["map", "map50", "match@0.5"])
def test_equal_detections_lose_nothing(name: str) -> None:
    """The drop is 0 with an interval; that of an engine without any box is all there was."""
    random = np.random.default_rng(5)
    outputs = {
        "boxes": corners(random, 40 * 20, 40).reshape(40, 20, 4),
        "scores": random.random((40, 20)),
        "classes": random.integers(0, 3, (40, 20)),
    }
    labels = as_labels([{"boxes": corners(random, 5, 40), "labels": random.integers(0, 3, 5)} for _ in range(40)])
    blind = outputs | {"scores": np.zeros((40, 20)), "classes": np.full((40, 20), -1)}
    for candidate, drop in ((outputs, 0.0), (blind, None)):
        scores = PairedStatistics(metric(name))
        scores.add(outputs, candidate, outputs if "match" in name else labels, np.ones(40, bool), 0)
        result = scores.add_to(AccuracyResult(n=40), None, 0.95)
        assert result.drop == pytest.approx(result.reference if drop is None else drop)
        assert result.drop_ci is not None
        assert result.drop_ci.low <= (result.drop or 0.0) <= result.drop_ci.high
