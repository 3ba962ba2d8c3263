"""The metrics that come with the package.

All take outputs (n, ...) and labels (n, ...) and keep only a few numbers of each sample.
"""

from __future__ import annotations

import numpy as np

from pytest_quant.metrics.metric import Array, ResolvedMetric

_PERCENT = 100.0


def _percent_mean(statistics: Array) -> float:
    return _PERCENT * float(np.mean(statistics))


def _top1_right(outputs: Array, labels: Array) -> Array:
    right: Array = np.argmax(outputs, axis=1) == labels
    return right


def _top5_right(outputs: Array, labels: Array) -> Array:
    """Whether fewer than five classes score above the label; ties count for the label, as in a stable sort."""
    own = np.take_along_axis(outputs, labels[:, None], axis=1)
    right: Array = np.sum(outputs > own, axis=1) < 5
    return right


def _absolute_error(outputs: Array, labels: Array) -> Array:
    """Mean over one sample of |output - label|."""
    return np.asarray(np.mean(np.abs(_flat_difference(outputs, labels)), axis=1))


def _squared_error(outputs: Array, labels: Array) -> Array:
    """Mean over one sample of (output - label)^2."""
    return np.asarray(np.mean(np.square(_flat_difference(outputs, labels)), axis=1))


def _flat_difference(outputs: Array, labels: Array) -> Array:
    n = len(outputs)
    return np.asarray(outputs.reshape(n, -1).astype(np.float64) - labels.reshape(n, -1).astype(np.float64))


def _root_mean(statistics: Array) -> float:
    return float(np.sqrt(np.mean(statistics)))


def _mean(statistics: Array) -> float:
    return float(np.mean(statistics))


def _class_pairs(outputs: Array, labels: Array) -> Array:
    return np.stack([np.argmax(outputs, axis=1), labels], axis=1).astype(np.int64)


def macro_f1_pct(pairs: Array) -> float:
    """Mean over the classes that occur of F1 = 2 TP / (2 TP + FP + FN), in percent.

    `pairs` holds (predicted, label) rows (n, 2). Equal to scikit-learn's ``f1_score(average="macro")``.
    """
    classes = int(pairs.max()) + 1
    predicted, actual = (np.bincount(pairs[:, column], minlength=classes) for column in (0, 1))
    right = np.bincount(pairs[pairs[:, 0] == pairs[:, 1], 0], minlength=classes)
    occurs = (predicted + actual) > 0
    return _PERCENT * float(np.mean(2.0 * right[occurs] / (predicted + actual)[occurs]))


def _cosine(outputs: Array, labels: Array) -> Array:
    """Cosine of the angle between output and label vector; 0 where one of them is all zero."""
    n = len(outputs)
    one, other = outputs.reshape(n, -1).astype(np.float64), labels.reshape(n, -1).astype(np.float64)
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    products = np.sum(one * other, axis=1)
    return np.asarray(np.divide(products, norms, out=np.zeros(n), where=norms > 0))


BUILTIN = {
    metric.name: metric
    for metric in (
        ResolvedMetric("top1", "higher", "%", _top1_right, _percent_mean, binary=True, reads_classes=True),
        ResolvedMetric("top5", "higher", "%", _top5_right, _percent_mean, binary=True, reads_classes=True),
        ResolvedMetric("f1", "higher", "%", _class_pairs, macro_f1_pct, reads_classes=True),
        ResolvedMetric("mae", "lower", "", _absolute_error, _mean),
        ResolvedMetric("rmse", "lower", "", _squared_error, _root_mean),
        ResolvedMetric("cosine", "higher", "", _cosine, _mean),
    )
}
