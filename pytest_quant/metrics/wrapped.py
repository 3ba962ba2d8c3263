"""Metrics of users: a callable that scores each sample, or a third party's that scores the whole set."""

from __future__ import annotations

import numpy as np

from pytest_quant.errors import UsageError
from pytest_quant.metrics.metric import Array, Metric, ResolvedMetric, innermost
from pytest_quant.metrics.whole_set import Score, scikit_learn_score, torchmetrics_score


def resolve_wrapped(metric: Metric) -> ResolvedMetric:
    """Return `metric` ready to score chunks."""
    inner = innermost(metric.fn)
    if all(hasattr(inner, method) for method in ("update", "compute", "reset")):
        # It takes tensors, which texts and dicts are not.
        return _whole_set(metric, torchmetrics_score(inner), reads_objects=False)
    if (getattr(inner, "__module__", "") or "").startswith("sklearn."):
        return _whole_set(metric, scikit_learn_score(metric.fn, inner), reads_objects=True)
    return ResolvedMetric(
        metric.name,
        metric.better,
        metric.unit,
        statistics=lambda outputs, labels: _scores(metric, outputs, labels),
        aggregate=lambda scores: metric.scale * float(np.mean(scores)),
        rate=metric.scale,
        reads_objects=True,
    )


def _scores(metric: Metric, outputs: Array, labels: Array) -> Array:
    """Call the user's function; its scores as float64 (n,), or bool where it gives bool."""
    scores = np.asarray(metric.fn(outputs, labels))
    if scores.shape != (len(outputs),) or scores.dtype.kind not in "biuf":
        raise UsageError(
            f"metric '{metric.name}' must give one score per sample",
            value=f"an array of shape {scores.shape} and dtype {scores.dtype} for {len(outputs)} samples",
            allowed=f"numbers of shape ({len(outputs)},)",
            fix="return one number for each row of outputs, not their mean",
        )
    return scores if scores.dtype.kind == "b" else scores.astype(np.float64)


def _whole_set(metric: Metric, score: Score, *, reads_objects: bool) -> ResolvedMetric:
    """Keep outputs and labels of all samples, because the score is defined on the whole set."""

    def aggregate(rows: Array) -> float:
        return metric.scale * score(rows["label"], rows["output"])

    return ResolvedMetric(
        metric.name, metric.better, metric.unit, _rows, aggregate, reads_objects=reads_objects, costly=True
    )


def _rows(outputs: Array, labels: Array) -> Array:
    """One record per sample, so that both sides of it are drawn together and keep their shapes and dtypes."""
    known = labels.astype(np.int64) if labels.dtype.kind in "iub" else labels
    rows = np.empty(
        len(outputs), dtype=[("label", known.dtype, known.shape[1:]), ("output", outputs.dtype, outputs.shape[1:])]
    )
    rows["label"], rows["output"] = known, outputs
    return rows
