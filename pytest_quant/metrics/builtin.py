"""The metrics that come with the package.

All take outputs (n, ...) and labels (n, ...) and keep only a few numbers of each sample.
"""

from __future__ import annotations

import numpy as np

from pytest_quant.errors import UsageError
from pytest_quant.metrics.metric import Array, ResolvedMetric

_PERCENT = 100.0
_TOP = 5


def _percent_mean(statistics: Array) -> float:
    return _PERCENT * float(np.sum(statistics)) / len(statistics)


def _mean(statistics: Array) -> float:
    return float(np.mean(statistics))


def _root_mean(statistics: Array) -> float:
    return float(np.sqrt(np.mean(statistics)))


def _class_indices(labels: Array) -> Array:
    """One class index per sample (n,), from labels (n,) or (n, 1)."""
    if labels.size != len(labels):
        raise UsageError(
            "a classification metric needs one class index per sample",
            value=f"labels of shape {labels.shape}",
            fix="give the index of the class, not a vector, or name another metric",
        )
    return labels.reshape(-1).astype(np.int64)


def _top1_right(outputs: Array, labels: Array) -> Array:
    return np.asarray(np.argmax(outputs, axis=1) == _class_indices(labels))


def _top5_right(outputs: Array, labels: Array) -> Array:
    """Whether fewer than five classes come before the label's.

    Of equal scores the lower class index comes first, as in argmax: a dead output, all scores equal, is not right.
    """
    wanted = _class_indices(labels)[:, None]
    own = np.take_along_axis(outputs, wanted, axis=1)
    earlier = np.arange(outputs.shape[1]) < wanted
    return np.asarray(np.sum((outputs > own) | ((outputs == own) & earlier), axis=1) < _TOP)


def _flat(outputs: Array, labels: Array) -> tuple[Array, Array]:
    """Both as float64 (n, values). Raises `UsageError` where a sample's output and label differ in size."""
    n = len(outputs)
    if outputs.size != labels.size:
        raise UsageError(
            "output and label of a sample differ in size, and this metric compares them value by value",
            value=f"outputs {outputs.shape}, labels {labels.shape}",
            fix="give labels of the output's shape, or name another metric or another output",
        )
    return outputs.reshape(n, -1).astype(np.float64), labels.reshape(n, -1).astype(np.float64)


def _absolute_error(outputs: Array, labels: Array) -> Array:
    """Mean over one sample of |output - label|."""
    one, other = _flat(outputs, labels)
    return np.asarray(np.mean(np.abs(one - other), axis=1))


def _squared_error(outputs: Array, labels: Array) -> Array:
    """Mean over one sample of (output - label)^2."""
    one, other = _flat(outputs, labels)
    return np.asarray(np.mean(np.square(one - other), axis=1))


def _cosine(outputs: Array, labels: Array) -> Array:
    """Cosine of the angle between output and label vector; 0 where one of them is all zero."""
    one, other = _flat(outputs, labels)
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    products = np.sum(one * other, axis=1)
    return np.asarray(np.divide(products, norms, out=np.zeros(len(one)), where=norms > 0))


def _class_pairs(outputs: Array, labels: Array) -> Array:
    return np.stack([np.argmax(outputs, axis=1), _class_indices(labels)], axis=1).astype(np.int32)


def macro_f1_pct(pairs: Array) -> float:
    """Mean over the classes that occur of F1 = 2 TP / (2 TP + FP + FN), in percent.

    `pairs` holds (predicted, label) rows (n, 2). Equal to scikit-learn's ``f1_score(average="macro")``.
    """
    classes = int(pairs.max()) + 1
    predicted, actual = (np.bincount(pairs[:, column], minlength=classes) for column in (0, 1))
    right = np.bincount(pairs[pairs[:, 0] == pairs[:, 1], 0], minlength=classes)
    occurs = (predicted + actual) > 0
    return _PERCENT * float(np.mean(2.0 * right[occurs] / (predicted + actual)[occurs]))


BUILTIN = {
    metric.name: metric
    for metric in (
        ResolvedMetric("top1", "higher", "%", _top1_right, _percent_mean, rate=_PERCENT, reads_classes=True, answers=1),
        ResolvedMetric(
            "top5",
            "higher",
            "%",
            _top5_right,
            _percent_mean,
            rate=_PERCENT,
            reads_classes=True,
            answers=_TOP,
            fewest_classes=_TOP + 1,
        ),
        ResolvedMetric("f1", "higher", "%", _class_pairs, macro_f1_pct, reads_classes=True),
        ResolvedMetric("mae", "lower", "", _absolute_error, _mean),
        ResolvedMetric("rmse", "lower", "", _squared_error, _root_mean),
        ResolvedMetric("cosine", "higher", "", _cosine, _mean),
    )
}
