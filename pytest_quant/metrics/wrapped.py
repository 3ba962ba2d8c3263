"""Metrics of users: callables, scikit-learn functions and torchmetrics objects, in the one internal form."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from pytest_quant.errors import UsageError
from pytest_quant.metrics.metric import Array, Metric, ResolvedMetric


def resolve_wrapped(metric: Metric, labels: str) -> ResolvedMetric:
    """Return `metric` ready to score chunks; `labels` is ``int`` or ``float``, which third parties tell apart."""
    module = getattr(metric.fn, "__module__", "") or ""
    if all(hasattr(metric.fn, method) for method in ("update", "compute", "reset")):
        return _whole_set(metric, _columns, _torchmetrics_score(metric.fn), labels)
    if module.startswith("sklearn."):
        predict = _predicted_classes if module.endswith("_classification") else _columns
        return _whole_set(metric, predict, metric.fn, labels)
    return ResolvedMetric(
        metric.name,
        metric.better,
        metric.unit,
        statistics=lambda outputs, labels: _scores(metric, outputs, labels),
        aggregate=lambda scores: metric.scale * float(np.mean(scores)),
    )


def _scores(metric: Metric, outputs: Array, labels: Array) -> Array:
    """Call the user's function and check that it gave one finite score per sample."""
    scores = np.asarray(metric.fn(outputs, labels), dtype=np.float64)
    if scores.shape != (len(outputs),):
        raise UsageError(
            f"metric '{metric.name}' must give one score per sample",
            value=f"an array of shape {scores.shape} for {len(outputs)} samples",
            allowed=f"shape ({len(outputs)},)",
            fix="return one number for each row of outputs, not their mean",
        )
    return scores


def _whole_set(
    metric: Metric, predict: Callable[[Array], Array], score: Callable[[Array, Array], object], kind: str
) -> ResolvedMetric:
    """Keep predictions and labels of all samples, because the score is defined on the whole set."""
    dtype = np.int64 if kind == "int" else np.float64

    def statistics(outputs: Array, labels: Array) -> Array:
        predicted = predict(outputs)
        known = labels.reshape(len(labels), -1).astype(np.float64)
        if known.shape[1] != 1:
            raise UsageError(
                f"metric '{metric.name}' is given one label per sample",
                value=f"labels of shape {labels.shape}",
                fix="wrap a callable that gives one score per sample: Metric(fn, better='higher')",
            )
        return np.concatenate([known, predicted.astype(np.float64)], axis=1)

    def aggregate(rows: Array) -> float:
        value: Any = score(rows[:, 0].astype(dtype), _predictions(rows))
        return metric.scale * float(value)

    return ResolvedMetric(metric.name, metric.better, metric.unit, statistics, aggregate, costly=True)


def _predictions(rows: Array) -> Array:
    predicted = rows[:, 1:]
    return np.asarray(predicted[:, 0] if predicted.shape[1] == 1 else predicted)


def _predicted_classes(outputs: Array) -> Array:
    """Class of each sample (n, 1): the largest score, or the output itself when it is one number."""
    flat = outputs.reshape(len(outputs), -1)
    return np.asarray(flat if flat.shape[1] == 1 else np.argmax(flat, axis=1)[:, None])


def _columns(outputs: Array) -> Array:
    return outputs.reshape(len(outputs), -1)


def _torchmetrics_score(metric: Any) -> Callable[[Array, Array], object]:
    """Score by a torchmetrics object; torch is imported already, because the object needs it."""

    def score(labels: Array, predictions: Array) -> object:
        torch: Any = sys.modules["torch"]
        metric.reset()
        metric.update(torch.from_numpy(np.ascontiguousarray(predictions)), torch.from_numpy(labels))
        return metric.compute()

    return score
