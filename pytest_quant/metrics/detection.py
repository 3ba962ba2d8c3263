"""Boxes of a detector: matched to labels as COCO does, their mean average precision, and the share that is kept.

Average precision is that of pycocotools (Lin et al. 2014, arXiv 1405.0312): 101 points of recall, at most 100
detections of a class in a picture, any area, the mean over classes that occur in the labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pytest_quant.errors import UsageError
from pytest_quant.metrics.metric import Array, ResolvedMetric, ratio_metric

_THRESHOLDS = np.linspace(0.5, 0.95, 10)
_RECALLS = np.linspace(0.0, 1.0, 101)


class _Boxes(NamedTuple):
    """Boxes of a chunk of pictures, (m, ...), sorted by picture and class; of these by score, or crowds behind others.

    `corners` are x1, y1, x2, y2; `crowd` tells boxes around many objects, which any number of detections may match.
    """

    pictures: Array
    classes: Array
    corners: Array
    scores: Array
    crowd: Array

    def only(self, chosen: Array) -> _Boxes:
        """Return those of a mask (m,)."""
        return _Boxes(*(column[chosen] for column in self))

    def keys(self) -> Array:
        """Return a number for each, in rising order, that is equal for boxes of one picture and class."""
        return np.asarray(self.pictures * 2**32 + self.classes)


def _sorted(pictures: Array, classes: Array, corners: Array, scores: Array, crowd: Array) -> _Boxes:
    boxes = _Boxes(pictures, classes.astype(np.int64), corners.astype(np.float64), scores.astype(np.float64), crowd)
    return boxes.only(np.lexsort((-boxes.scores, crowd, boxes.classes, pictures)))


def _read_detections(outputs: Mapping[str, Array]) -> _Boxes:
    """Read the outputs of a detector. A box of several scores has the class of the largest.

    Raises
    ------
    UsageError : the outputs have other shapes, or a class is no whole number.
    """
    boxes, *others = outputs.values()
    if len(others) == 1 and others[0].ndim == 3:
        others = [others[0].max(axis=2), others[0].argmax(axis=2)]
    fit = boxes.shape[2:] == (4,) and [each.shape for each in others] == [boxes.shape[:2]] * 2
    if not fit or np.any(others[1] != np.round(others[1])):
        raise UsageError(
            "a metric of detections reads boxes and their scores and classes, in this order",
            value=", ".join(f"'{name}' {each.shape}" for name, each in outputs.items()),
            allowed="boxes (n, k, 4), scores (n, k) and classes (n, k), whole numbers; or boxes (n, k, 4) and scores "
            "(n, k, classes)",
            fix="name the outputs, output=['boxes', 'scores', 'classes']; or wrap a callable that reads yours by name: "
            "metric=Metric(fn, outputs='all')",
        )
    scores, classes = others
    pictures = np.repeat(np.arange(len(boxes)), boxes.shape[1])
    found = _sorted(pictures, classes.ravel(), boxes.reshape(-1, 4), scores.ravel(), np.zeros(len(pictures), bool))
    # With a class below 0 runtimes fill up the k of a picture.
    return found.only(found.classes >= 0)


def _read_annotations(labels: Array) -> _Boxes:
    """Read one dict for each picture: boxes (m, 4), labels (m,) and, for some, iscrowd (m,).

    Raises
    ------
    UsageError : a label has another form, corners in another order, or a class below 0.
    """
    columns: list[tuple[Array, ...]] = []
    for picture, label in enumerate(labels):
        try:
            corners = np.asarray(label["boxes"], np.float64).reshape(-1, 4)
            classes = np.ravel(label["labels"])
            crowd = np.ravel(label.get("iscrowd", np.zeros(len(classes)))) != 0
            valid = len(classes) == len(corners) == len(crowd) and bool(np.all(classes == np.floor(np.abs(classes))))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            valid = False
        if not valid or not bool(np.all(corners[:, :2] <= corners[:, 2:])):
            raise UsageError(
                "a metric of detections needs a dict of boxes and labels for each picture",
                value=f"picture {picture} of {len(labels)} in its batch: {label!r:.200}",
                allowed="{'boxes': (m, 4), 'labels': (m,)}: corners x1, y1, x2, y2 with x1 <= x2 and y1 <= y2, and "
                "classes from 0 on; 'iscrowd' (m,) if there are crowds",
                fix="put the corners in order, and give boxes of x, y, width and height as x, y, x + width, y + height",
            )
        columns.append((np.full(len(classes), picture), classes, corners, np.zeros(len(classes)), crowd))
    return _sorted(*(np.concatenate(column) for column in zip(*columns, strict=True)))


def _match(found: _Boxes, wanted: _Boxes, thresholds: Array) -> tuple[Array, Array]:
    """Match each of `found`, the best scores first, to the box of its picture and class that it overlaps most.

    Parameters
    ----------
    thresholds : (t,) least intersections over unions, in rising order. A box that is matched is taken for others at
        the same threshold, unless it is a crowd; a crowd is matched only if nothing else is.

    Returns
    -------
    Two masks (found, t): which match a box, and which only a crowd.
    """
    hit, in_crowd = np.zeros((2, len(found.classes), len(thresholds)), bool)
    ours, theirs = found.keys(), wanted.keys()
    first, end = (np.searchsorted(theirs, ours, side=side) for side in ("left", "right"))
    one = np.repeat(np.arange(len(ours)), end - first)
    other = np.arange(len(one)) + np.repeat(first - np.cumsum(end - first) + (end - first), end - first)
    overlap = _overlaps(found.corners[one], wanted.corners[other], wanted.crowd[other])
    # As pycocotools: equal boxes are not lost to rounding.
    least = np.minimum(thresholds, 1.0 - 1e-10)
    near = overlap >= least[0]
    one, other, overlap = one[near], other[near], overlap[near]
    # One box of each picture and class in a round: no two of a round compete.
    which, places = np.unique(one, return_inverse=True)
    rounds = (np.arange(len(which)) - np.searchsorted(ours[which], ours[which]))[places]
    order = np.lexsort((-other, -overlap, wanted.crowd[other], one, rounds))
    one, other, overlap, rounds = one[order], other[order], overlap[order], rounds[order]
    taken = np.zeros((len(theirs), len(least)), bool)
    for pairs in np.split(np.arange(len(one)), np.flatnonzero(np.diff(rounds)) + 1):
        is_free = (overlap[pairs, None] >= least) & ~taken[other[pairs]]
        starts = np.flatnonzero(np.diff(one[pairs], prepend=-1))
        best = np.minimum.reduceat(np.where(is_free, pairs[:, None], len(one)), starts)
        matched, level = np.nonzero(best < len(one))
        pair = best[matched, level]
        crowd = wanted.crowd[other[pair]]
        hit[one[pair], level], in_crowd[one[pair], level] = ~crowd, crowd
        taken[other[pair], level] = ~crowd
    return hit, in_crowd


def _overlaps(ours: Array, theirs: Array, crowd: Array) -> Array:
    """Return intersection over union of pairs of boxes (m, 4); over ours alone for a crowd; 0 without an area."""
    both = (np.minimum(ours[:, 2:], theirs[:, 2:]) - np.maximum(ours[:, :2], theirs[:, :2])).clip(0.0).prod(axis=1)
    area, other = ((each[:, 2:] - each[:, :2]).prod(axis=1) for each in (ours, theirs))
    whole = np.where(crowd, area, area + other - both)
    return np.asarray(np.divide(both, whole, out=np.zeros(len(both)), where=both > 0))


def _pictures(outputs: Mapping[str, Array], labels: Array, thresholds: Array) -> Array:
    """Return for each picture (n,) the bytes of its records: of its detections, and of the boxes to find."""
    found, wanted = _read_detections(outputs), _read_annotations(labels)
    keys = found.keys()
    found = found.only(np.arange(len(keys)) - np.searchsorted(keys, keys) < 100)
    hit, in_crowd = _match(found, wanted, thresholds)
    wanted = wanted.only(~wanted.crowd)
    records = np.zeros(len(found.classes) + len(wanted.classes), _record(len(thresholds)))
    ours, theirs = records[: len(found.classes)], records[len(found.classes) :]
    ours["label"], ours["score"], ours["hit"], ours["in_crowd"] = found.classes, found.scores, hit, in_crowd
    theirs["label"], theirs["score"] = wanted.classes, np.inf
    pictures, rows = np.concatenate([found.pictures, wanted.pictures]), np.empty(len(labels), object)
    rows[:] = [records[pictures == picture].tobytes() for picture in range(len(labels))]
    return rows


def _record(levels: int) -> np.dtype[Any]:
    """Return the type of a detection, with what it matches at each threshold; or of a box to find, with no score."""
    masks = [("hit", np.bool_, (levels,)), ("in_crowd", np.bool_, (levels,))]
    return np.dtype([("label", np.int64), ("score", np.float64), *masks])


def _average_precision(rows: Array, levels: int) -> Callable[[Array], float]:
    """Return the mean average precision in percent as a function of indices of `rows`, see `_pictures`.

    A picture that is drawn several times weighs as much; all detections are sorted once.
    """
    kind = _record(levels)
    records = np.frombuffer(b"".join(rows), kind)
    pictures = np.repeat(np.arange(len(rows)), [len(row) // kind.itemsize for row in rows])
    wanted = np.isposinf(records["score"])
    names, truths = np.unique(records["label"][wanted], return_inverse=True)
    labelled = pictures[wanted]
    chosen = np.flatnonzero(~wanted & np.isin(records["label"], names))
    chosen = chosen[np.lexsort((-records["score"][chosen], records["label"][chosen]))]
    records, pictures = records[chosen], pictures[chosen]
    classes = np.searchsorted(names, records["label"])
    in_crowd = records["in_crowd"].T
    masks = ~in_crowd if in_crowd.any() else np.ones((1, 1))
    level, place = np.nonzero(records["hit"].T)
    # One curve for each threshold and class; of its points only hits matter, between which precision falls.
    curve = level * len(names) + classes[place]
    starts = np.flatnonzero(np.diff(curve, prepend=-1))
    lengths, own = np.diff(starts, append=len(curve)), classes[place[starts]]
    offset = level * (len(classes) + 1) * (len(masks) > 1)
    before, at = offset[starts] + np.searchsorted(classes, own), offset + place + 1

    def score(drawn: Array) -> float:
        weights = np.bincount(drawn, minlength=len(rows)).astype(np.float64)
        total = np.bincount(truths, weights[labelled], len(names))
        if not total.any():
            return math.nan
        each = weights.take(pictures)
        seen = np.concatenate([np.append(0.0, np.cumsum(mask * each)) for mask in masks])
        hit = each.take(place)
        hits = np.cumsum(hit)
        hits -= np.repeat((hits - hit)[starts], lengths)
        precision = hits / np.maximum(seen.take(at) - np.repeat(seen[before], lengths), 1.0)
        # The precision at a recall is the best at that or more. A step down between the curves keeps them apart.
        best = np.maximum.accumulate((precision - 2.0 * curve)[::-1])[::-1] + 2.0 * curve
        reached = np.searchsorted(_RECALLS, hits / np.repeat(np.maximum(total[own], 1.0), lengths), side="right")
        points = np.diff(reached, prepend=0)
        points[starts] = reached[starts]
        return 100.0 * float(best @ points) / (len(_RECALLS) * levels * np.count_nonzero(total))

    return score


def _average(name: str, thresholds: Array) -> ResolvedMetric:
    statistics = partial(_pictures, thresholds=thresholds)
    prepare = partial(_average_precision, levels=len(thresholds))
    score = ResolvedMetric(name, "higher", "%", statistics, lambda rows: prepare(rows)(np.arange(len(rows))))
    return replace(score, prepare=prepare, outputs="all", reads_objects=True, costly=True, is_ratio=True)


AVERAGES = _average("map", _THRESHOLDS), _average("map50", _THRESHOLDS[:1])


def _kept(outputs: Mapping[str, Array], reference: Mapping[str, Array], thresholds: Array) -> Array:
    """Return for each picture how many confident boxes of the reference are kept, and how many there are: (n, 2)."""
    found, wanted = (boxes.only(boxes.scores >= 0.5) for boxes in map(_read_detections, (outputs, reference)))
    hit, _ = _match(found, wanted, thresholds)
    n = len(next(iter(outputs.values())))
    kept = found.pictures[hit[:, 0]], wanted.pictures
    return np.stack([np.bincount(pictures, minlength=n) for pictures in kept], axis=1).astype(np.float64)


def share_kept(name: str, overlap: float) -> ResolvedMetric:
    """Return the share of the reference's boxes of score 0.5 and more that the candidate has with such a score too.

    Parameters
    ----------
    overlap : least intersection over union of two boxes of one class that are the same.
    """
    metric = ratio_metric(name, "higher", partial(_kept, thresholds=np.array([overlap])))
    return replace(metric, outputs="all", against_reference=True)
