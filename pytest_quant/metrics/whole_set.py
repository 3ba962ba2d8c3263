"""What scikit-learn and torchmetrics take, made from labels (n, ...) and outputs (n, ...)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from pytest_quant.errors import UsageError
from pytest_quant.metrics.metric import Array

Score = Callable[[Array, Array], float]
"""(labels, outputs) of any samples -> their score, before scaling."""

_TAKE_PROBABILITIES = frozenset({"brier_score_loss", "d2_brier_score", "d2_log_loss_score", "hinge_loss", "log_loss"})
"""Functions of scikit-learn's classification module that take what the model gives, not the class it chose."""


def scikit_learn_score(fn: Callable[..., Any], inner: Callable[..., object]) -> Score:
    """Score by a function ``(labels, predictions)`` of scikit-learn; `inner` is `fn` without its partials.

    Classification takes the class with the largest output; ranking, regression and losses of probabilities take
    the outputs. For two classes ranking takes one number, the second output less the first.
    """
    name = getattr(inner, "__name__", "")
    module = inner.__module__ or ""
    takes_classes = module.endswith("_classification") and name not in _TAKE_PROBABILITIES
    ranks = module.endswith("_ranking") or name == "hinge_loss"

    def score(labels: Array, outputs: Array) -> float:
        outputs = _alike(labels, outputs)
        if labels.ndim == 1 and outputs.ndim == 2:
            if takes_classes:
                outputs = np.argmax(outputs, axis=1)
            elif ranks and outputs.shape[1] == 2:
                outputs = outputs[:, 1] - outputs[:, 0]
        return float(fn(labels, outputs))

    return score


def torchmetrics_score(metric: Any) -> Score:
    """Score by a torchmetrics object, on its own device; whoever made the object has imported torch."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        raise UsageError(
            "a metric with update, compute and reset is fed torch tensors, and torch is not imported",
            value=repr(metric),
            fix="wrap a callable that gives one score per sample: Metric(fn, better='higher')",
        )

    def score(labels: Array, outputs: Array) -> float:
        device = getattr(metric, "device", "cpu")
        tensors = (
            torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in (_alike(labels, outputs), labels)
        )
        metric.reset()
        metric.update(*tensors)
        value = float(metric.compute())
        metric.reset()
        return value

    return score


def _alike(labels: Array, outputs: Array) -> Array:
    """Outputs (n, 1) as (n,) where labels are (n,)."""
    return outputs.reshape(labels.shape) if outputs.size == labels.size else outputs
