"""The metrics that come with the package, and the table of metrics by name.

All read outputs (n, ...) and labels (n, ...), and keep only a few numbers for each sample.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import EntryPoint

import numpy as np

from pytest_quant.errors import UsageError, nearest
from pytest_quant.metrics.classes import perplexity, token_losses
from pytest_quant.metrics.detection import AVERAGES, share_kept
from pytest_quant.metrics.metric import Array, Metric, ResolvedMetric, ratio_metric, resolve_wrapped
from pytest_quant.metrics.texts import character_counts, exact_matches, word_counts
from pytest_quant.readers import find_registered

_PERCENT = 100.0
_TOP = 5


def _percent_mean(statistics: Array) -> float:
    return _PERCENT * float(np.sum(statistics)) / len(statistics)


def _class_indices(labels: Array) -> Array:
    """Return one class index per sample (n,), from labels (n,) or (n, 1). Raises `UsageError` for other shapes."""
    if labels.size != len(labels):
        raise UsageError(
            "a classification metric needs one class index per sample",
            value=f"labels of shape {labels.shape}",
            fix="give the index of the class, labels.argmax(axis=1) if they are one-hot, or name another metric",
        )
    return labels.reshape(-1).astype(np.int64)


def _top1_right(outputs: Array, labels: Array) -> Array:
    return np.asarray(np.argmax(outputs, axis=1) == _class_indices(labels))


def _top5_right(outputs: Array, labels: Array) -> Array:
    """Return a mask (n,) of the samples whose label is among the five classes with the largest scores."""
    return np.asarray(_recall(outputs, _class_indices(labels), _TOP) == 1.0)


def _relevant(labels: Array, items: int) -> Array:
    """Return a mask (n, items) of labels that are indices (n,), lists of them, filled up by numbers below 0, or masks.

    Raises
    ------
    UsageError : an index is no whole number, or no item has it.
    """
    if labels.dtype.kind in "iu" and labels.shape[1:] == (items,) and np.isin(labels, (0, 1)).all():
        return np.asarray(labels != 0)
    mask = np.zeros((len(labels), items), bool)
    for row, label in zip(mask, labels, strict=True):
        places = np.ravel(label)
        if places.size and (places.dtype.kind not in "iu" or places.max() >= items):
            raise UsageError(
                "a label of recall@k is no index of an item",
                value=f"{label!r:.100}",
                allowed=f"whole numbers from 0 to {items - 1}: one, or a list of those relevant; or a mask of 0 and 1",
                fix="map the items of the labels to the columns of the output",
            )
        row[places[places >= 0].astype(np.int64)] = True
    return mask


def _recall(outputs: Array, labels: Array, k: int) -> Array:
    """Return the share of the relevant items among the k of largest score, (n,); NaN where no item is relevant.

    Of equal scores the lower index ranks first, as in argmax, so that a dead output, all scores equal, is not right for
    every label.
    """
    if outputs.ndim != 2 or outputs.shape[1] <= k:
        raise UsageError(
            f"the metric 'recall@{k}' needs an output (n, items) of more than {k} items",
            value=f"an output of shape {outputs.shape}",
            fix="name the output with a score for each item, output='...', or lower k",
        )
    relevant = _relevant(labels, outputs.shape[1])
    first = np.argsort(-outputs.astype(np.float64), axis=1, kind="stable")[:, :k]
    found, wanted = np.take_along_axis(relevant, first, axis=1).sum(axis=1), relevant.sum(axis=1)
    return np.asarray(np.divide(found, wanted, out=np.full(len(found), np.nan), where=wanted > 0))


def _recall_at(name: str, k: float) -> ResolvedMetric:
    statistics = partial(_recall, k=int(k))
    # The interval of shares is that of sums: what none of them shows counts only while few differ.
    return ResolvedMetric(name, "higher", "%", statistics, _percent_mean, _PERCENT, reads_objects=True, is_ratio=True)


def _flat(outputs: Array, labels: Array) -> tuple[Array, Array]:
    """Return both as float64 (n, values). Raises `UsageError` when a sample's output and label differ in size."""
    n = len(outputs)
    if outputs.size != labels.size:
        raise UsageError(
            "output and label of a sample differ in size, and this metric compares them value by value",
            value=f"outputs {outputs.shape}, labels {labels.shape}",
            fix="give labels of the output's shape, or name another metric or another output",
        )
    return outputs.reshape(n, -1).astype(np.float64), labels.reshape(n, -1).astype(np.float64)


def _error(outputs: Array, labels: Array, of: Callable[[Array], Array]) -> Array:
    """Return the mean of `of` (output - label) over the values of each sample, (n,)."""
    ours, theirs = _flat(outputs, labels)
    return np.asarray(np.mean(of(ours - theirs), axis=1))


def _cosine(outputs: Array, labels: Array) -> Array:
    """Return the cosine between output and label vector of each sample, (n,); 0 if either is all zero."""
    ours, theirs = _flat(outputs, labels)
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    return np.asarray(np.divide(np.sum(ours * theirs, axis=1), norms, out=np.zeros(len(ours)), where=norms > 0))


def _class_pairs(outputs: Array, labels: Array) -> Array:
    return np.stack([np.argmax(outputs, axis=1), _class_indices(labels)], axis=1).astype(np.int32)


def macro_f1_pct(pairs: Array) -> float:
    """Return the mean of F1 = 2 TP / (2 TP + FP + FN) over the classes that occur, in percent.

    `pairs` holds (predicted, label) rows (n, 2). Equal to scikit-learn's ``f1_score(average="macro")``.
    """
    classes = int(pairs.max()) + 1
    predicted, actual = (np.bincount(pairs[:, column], minlength=classes) for column in (0, 1))
    right = np.bincount(pairs[pairs[:, 0] == pairs[:, 1], 0], minlength=classes)
    occurs = (predicted + actual) > 0
    return _PERCENT * float(np.mean(2.0 * right[occurs] / (predicted + actual)[occurs]))


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
    counts = (theirs >= 0) & (theirs != 255)
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


_MIOU = ResolvedMetric(
    "miou", "higher", "%", _areas, lambda rows: _mean_iou(rows)(np.arange(len(rows))), prepare=_mean_iou, is_ratio=True
)
_TOP1 = ResolvedMetric("top1", "higher", "%", _top1_right, _percent_mean, rate=_PERCENT, reads_classes=True, answers=1)

BUILTIN = {
    metric.name: metric
    for metric in (
        _TOP1,
        replace(_TOP1, name="top5", statistics=_top5_right, answers=_TOP, fewest_classes=_TOP + 1),
        ResolvedMetric("f1", "higher", "%", _class_pairs, macro_f1_pct, reads_classes=True),
        ResolvedMetric("mae", "lower", "", partial(_error, of=np.abs), np.mean, rate=1.0),
        ResolvedMetric("rmse", "lower", "", partial(_error, of=np.square), lambda rows: float(np.sqrt(np.mean(rows)))),
        ResolvedMetric("exact_match", "higher", "%", exact_matches, _percent_mean, rate=_PERCENT, reads_objects=True),
        ratio_metric("wer", "lower", word_counts),
        ratio_metric("cer", "lower", character_counts),
        ResolvedMetric("perplexity", "lower", "", token_losses, perplexity, reads_objects=True, is_ratio=True),
        ResolvedMetric("cosine", "higher", "", _cosine, np.mean, rate=1.0),
        _MIOU,
        *AVERAGES,
    )
}

_NUMBERED: dict[str, tuple[Callable[[str, float], ResolvedMetric], Callable[[float], bool], str]] = {
    "match": (share_kept, lambda number: 0.0 < number <= 1.0, "match@0.5"),
    "recall": (_recall_at, lambda number: number >= 1.0 and number.is_integer(), "recall@10"),
}
"""Metrics with a number in their names: how each is made, which numbers it takes, and an example."""

GROUP = "pytest_quant.metrics"

_OTHER_NAMES = {
    "em": "exact_match",
    "ppl": "perplexity",
    **dict.fromkeys(("acc", "accuracy"), "top1"),
    **dict.fromkeys(("iou", "jaccard"), "miou"),
    **dict.fromkeys(("map@0.5", "map@50", "ap50"), "map50"),
}


@cache
def metric_by_name(name: str) -> ResolvedMetric | Metric:
    """Return the metric called `name`; those of third parties are not loaded before.

    Raises
    ------
    UsageError : there is none of that name, it does not load, or a name is registered twice.
    """
    table: dict[str, ResolvedMetric | EntryPoint] = {**BUILTIN, **find_registered(GROUP, "metric", BUILTIN)}
    if name not in table:
        kind, _, number = name.partition("@")
        make, takes, _ = _NUMBERED.get(kind, (None, None, ""))
        if make and takes and re.fullmatch(r"\d+(\.\d+)?", number, re.ASCII) and takes(float(number)):
            return make(f"{kind}@{float(number):g}", float(number))
        known = *table, *(example for _, _, example in _NUMBERED.values())
        raise UsageError(f"unknown metric '{name}'", allowed=nearest(name, known, _OTHER_NAMES))
    metric = table[name]
    if isinstance(metric, ResolvedMetric):
        return metric
    try:
        value = metric.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the metric '{name}' does not load", value=f"{metric.value}: {error}") from error
    if isinstance(value, Metric):
        return replace(value, name=name)
    raise UsageError(
        f"the metric '{name}' is registered as {type(value).__name__}",
        value=metric.value,
        allowed="a pytest_quant.Metric",
    )


def resolve_metric(
    value: str | Metric | None, labels: str, output_shape: tuple[int, ...], label_type: str = ""
) -> ResolvedMetric | None:
    """Return the metric that a mark asks for, or the default.

    Parameters
    ----------
    value : a name, a `Metric`, or ``None`` for the default: top1 where labels are integers and the output is
        (n, classes) with more than one class.
    labels : kind of the labels: ``none``, ``int``, ``float`` or ``object``.
    output_shape : of the output that is scored, axis 0 the sample.
    label_type : names of the Python types of object labels, for messages.

    Returns
    -------
    ``None`` when the mark names no metric and the default does not apply.

    Raises
    ------
    UsageError : the named metric is unknown, or not defined for such labels or outputs.
    """
    classes = output_shape[1] if len(output_shape) == 2 else 0
    if value is None:
        return BUILTIN["top1"] if labels == "int" and classes > 1 else None
    given = metric_by_name(value) if isinstance(value, str) else value
    metric = resolve_wrapped(given) if isinstance(given, Metric) else given
    if labels == "none" and not metric.against_reference:
        raise UsageError(
            f"the metric '{metric.name}' needs labels, and the data has none",
            fix=f"give labels, or limit {'min_agreement, ' * (classes > 1)}min_sqnr_db or min_cosine, which need none",
        )
    if labels == "object" and not (metric.reads_objects or metric.against_reference):
        raise UsageError(
            f"the metric '{metric.name}' cannot read these labels",
            value=f"labels of type {label_type}",
            allowed="one class index for each sample" if metric.reads_classes else "numbers of one shape",
            fix=f"{'map each label to the index of its class' if metric.reads_classes else 'give them as numbers'}, "
            "or wrap a callable that reads them: metric=Metric(fn, better='higher')",
        )
    if metric.reads_classes and (labels != "int" or classes < metric.fewest_classes):
        raise UsageError(
            f"the metric '{metric.name}' needs class labels and an output (n, classes)",
            value=f"{labels} labels, output of shape {output_shape}",
            allowed=f"at least {metric.fewest_classes} classes",
            fix="give the indices of classes as labels, labels.astype('int64') if they are floats; or name another "
            "metric, or another output of the model with output='...'",
        )
    return metric
