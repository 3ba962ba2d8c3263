"""Maps of classes, a class for each pixel or point: the mean intersection over union."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pytest_quant.errors import UsageError
from pytest_quant.metrics.metric import Array, ResolvedMetric

_VOID = 255


def _areas(outputs: Array, labels: Array) -> Array:
    """Return the pixels of each class in both maps, and in either, of each sample: float64 (n, classes, 2).

    Parameters
    ----------
    outputs : scores (n, classes, ...), floats, or maps of class indices (n, ...), integers.
    labels : maps of class indices (n, ...); those below 0 and 255 do not count.

    Raises
    ------
    UsageError : the maps differ in size, or hold a class that does not exist.
    """
    are_scores = outputs.dtype.kind == "f" and outputs.ndim > 1
    classes, ours = (outputs.shape[1], outputs.argmax(axis=1)) if are_scores else (256, outputs)
    if ours.size != labels.size:
        raise UsageError(
            "the metric 'miou' compares maps of classes of one size",
            value=f"output {outputs.shape}, labels {labels.shape}",
            allowed="scores (n, classes, ...) or class indices (n, ...), and labels (n, ...)",
            fix="resize the labels to the output, or name another output",
        )
    ours, theirs = ours.reshape(len(labels), -1), labels.reshape(len(labels), -1)
    counts = (theirs >= 0) & (theirs != _VOID)
    for name, pixels in (("output", ours), ("label", theirs)):
        wrong = pixels[counts & ((pixels < 0) | (pixels >= classes) | (pixels != np.floor(pixels)))]
        if len(wrong):
            raise UsageError(
                f"the metric 'miou' found a class that does not exist in a map of the {name}",
                value=str(wrong[0]),
                allowed=f"whole numbers from 0 to {classes - 1}; labels that do not count are 255 or below 0",
                fix="map the classes of the labels to those of the model",
            )
    rows = np.zeros((len(labels), classes, 2))
    for row, one, other, counted in zip(rows, ours, theirs, counts, strict=True):
        pixels = one[counted], other[counted], one[counted & (one == other)]
        first, second, both = (np.bincount(each.astype(np.int64), minlength=classes) for each in pixels)
        row[:] = np.stack([both, first + second - both], axis=1)
    return rows


def _mean_iou(rows: Array) -> Callable[[Array], float]:
    """Return the mean over the classes that occur, in percent, as a function of indices of `rows` (n, classes, 2)."""
    occurs = rows[:, :, 1].any(axis=0)
    areas = rows[:, occurs].reshape(len(rows), -1)

    def score(drawn: Array) -> float:
        weights = np.bincount(drawn, minlength=len(rows)).astype(np.float64)
        both, either = (weights @ areas).reshape(-1, 2).T
        return 100.0 * float(np.mean(both[either > 0] / either[either > 0])) if either.any() else math.nan

    return score


MIOU = ResolvedMetric(
    "miou", "higher", "%", _areas, lambda rows: _mean_iou(rows)(np.arange(len(rows))), prepare=_mean_iou, is_ratio=True
)
