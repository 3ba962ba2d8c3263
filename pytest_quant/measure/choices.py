"""What a check scores: the outputs that it reads, their metrics, and the labels and groups that have limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pytest_quant.backends import Outputs
from pytest_quant.data import Data
from pytest_quant.data.batch import is_object, labels_of, widen
from pytest_quant.errors import DataError, UsageError, nearest
from pytest_quant.metrics import ResolvedMetric, resolve_metric
from pytest_quant.metrics.metric import Array
from pytest_quant.metrics.parts import Parts
from pytest_quant.spec import PARTS, Check, limits_on


def choose_output(check: Check, first_outputs: Outputs) -> str:
    """Return the first output that the metric reads: the first of the mark's ``output``, else of the model.

    Raises
    ------
    UsageError : the mark names an output, there or in a limit, that the model does not have.
    """
    for limit, name in check.limits.by_output:
        if name not in first_outputs:
            raise UsageError(
                f"{limit} limits an output '{name}', which the model does not have",
                allowed=nearest(name, [*first_outputs, *(PARTS if limit in limits_on("score") else ())]),
            )
    for name in (*check.output, *(check.metric if isinstance(check.metric, Mapping) else ())):
        if name not in first_outputs:
            raise UsageError(f"the model has no output '{name}'", allowed=nearest(name, first_outputs))
    return (*check.output, *first_outputs)[0]


def choose_metric(check: Check, data: Data, outputs: Outputs, output: str) -> ResolvedMetric | None:
    """Return the metric to compute.

    Parameters
    ----------
    check : the metric and the limits of the mark.
    data : its kind and range of labels.
    outputs : of a batch, axis 0 the sample.
    output : name of the first one that the metric reads.

    Returns
    -------
    ``None`` when the mark names no metric, no limit needs one, and there is no default for such labels and outputs; for
    data that only stands in for real samples; and where outputs have a metric each.

    Raises
    ------
    UsageError : a limit needs a metric and there is none, or the metric is not defined for such labels and outputs.
    DataError : a label is not the index of a class of the output.
    """
    find_parts(check, data)
    if check.dataset.stands_in or isinstance(check.metric, Mapping):
        return None
    metric = resolve_metric(check.metric, data.labels, outputs[output].shape, data.label_type)
    if len(check.output) > 1 and metric is not None and metric.outputs == "one":
        if check.metric is not None:
            raise UsageError(
                f"the metric '{metric.name}' reads one output",
                value=f"output={[*check.output]}",
                allowed="several for map, map50, match@0.5 and functions of your own",
                fix=f"write output='{output}', or wrap a callable that gets them by name: metric=Metric(fn)",
            )
        metric = None
    if metric is None:
        names = [name for name in limits_on("score", "reference") if getattr(check.limits, name) is not None]
        if names:
            _refuse(names[0], data, outputs, output)
        return None
    if metric.reads_classes and data.label_range is not None:
        _check_labels(*data.label_range, outputs, output)
    return metric


def _refuse(limit: str, data: Data, outputs: Outputs, output: str) -> None:
    has_classes = outputs[output].ndim == 2 and outputs[output].shape[1] > 1
    if data.labels == "none":
        others = limits_on("accuracy", "output") if has_classes else limits_on("output")
        raise UsageError(
            f"{limit} needs labels, and {data.name} has none",
            allowed=f"without labels: {', '.join(others)}",
            fix="give labels, Dataset.from_arrays(inputs, labels) or Dataset.from_loader(loader, label='KEY'), or set "
            f"{'min_agreement=99' if has_classes else 'min_cosine=0.99'} in place of it",
        )
    wrap = "wrap yours: metric=Metric(fn, better='higher')"
    fix = wrap if data.labels == "object" else f"name one in the mark, metric='mae' for labels of its shape, or {wrap}"
    what = f"labels of type {data.label_type}" if data.label_type else f"{data.labels} labels"
    if has_classes and data.labels != "int":
        how = "labels.astype('int64') if they are floats"
        first = next(data.batches(1)).labels
        if first is not None and first.dtype.kind == "f" and first.size > 1:
            how = "labels.argmax(axis=1) if they are one-hot"
            what += f" of shape (n, {', '.join(map(str, first.shape[1:]))})"
        fix = f"for classes give their indices as labels, {how}; else {fix}"
    if data.labels == "int" and outputs[output].dtype.kind in "iu":
        indices = "compare class indices: metric=Metric(lambda outputs, labels: outputs.ravel() == labels)"
        fix = f"{_name_scores(outputs, output, 1)}, or {indices}"
    raise UsageError(
        f"{limit} needs a metric here",
        value=f"{what}, output '{output}' of shape {outputs[output].shape}",
        allowed="top1 is the default for integer labels and an output (n, classes) only",
        fix=fix,
    )


def _name_scores(outputs: Outputs, output: str, highest: float) -> str:
    """Say to name the first output but `output` that has a score for each class up to index `highest`."""
    others = [name for name, array in outputs.items() if name != output and array.ndim == 2 and array.dtype.kind == "f"]
    other = next((name for name in others if outputs[name].shape[1] > highest), "...")
    return f"name the output with a score for each class, output='{other}'"


def _check_labels(low: float, high: float, outputs: Outputs, output: str) -> None:
    classes = outputs[output].shape[1]
    if low < 0 or high >= classes:
        raise DataError(
            "a label is not one of the model's classes",
            value=f"labels from {low:g} to {high:g}",
            allowed=f"0 to {classes - 1}, for output '{output}' with {classes} classes",
            fix=f"{_name_scores(outputs, output, high)}, or map the labels to the order of the model's classes",
        )


@dataclass(frozen=True, slots=True)
class Head:
    """An output with its own metric, and the limit on its drop in that metric's unit; ``None`` without one."""

    name: str
    metric: ResolvedMetric
    margin: float | None = None


def choose_heads(check: Check, data: Data, outputs: Outputs) -> tuple[Head, ...]:
    """Return the outputs for which the mark names a metric each; none for data that stands in for real samples.

    Parameters
    ----------
    check : its metric, a dict by output, and its limits.
    data : whose first samples show the labels of each output.
    outputs : of a batch, axis 0 the sample.

    Raises
    ------
    UsageError : a metric is not defined for such labels or such an output.
    DataError : labels are no dicts by output, and there are several.
    """
    if not isinstance(check.metric, Mapping) or check.dataset.stands_in:
        return ()
    labels, drops = next(data.batches(32)).labels, check.limits.drops
    heads = []
    for name, metric in check.metric.items():
        own = None if labels is None else labels_of_head(labels, name, alone=len(check.metric) == 1)
        kind = "none" if own is None else "object" if is_object(own) else "float" if own.dtype.kind == "f" else "int"
        found = resolve_metric(metric, kind, outputs[name].shape, "" if own is None else type(own[0]).__name__)
        heads += [] if found is None else [Head(name, found, drops.get(name))]
    return tuple(heads)


def labels_of_head(labels: Array, name: str, *, alone: bool) -> Array:
    """Return the labels (n, ...) of one output: from dicts by output, or all of them for an output that is alone.

    Raises
    ------
    DataError : a label has none for this output.
    """
    has_own = [isinstance(label, Mapping) and name in label for label in labels] if is_object(labels) else [False]
    if alone and not any(has_own):
        return labels
    if not all(has_own):
        raise DataError(
            f"a label has none for output '{name}', which has a metric of its own",
            value=f"{labels[has_own.index(False)]!r:.100}",
            allowed="a dict by output for each sample",
            fix=f"give arrays by output, Dataset.from_arrays(inputs, {{'{name}': ..., ...}})",
        )
    what = f"labels of '{name}'"
    return widen(labels_of([label[name] for label in labels], len(labels), what), what)


def find_parts(check: Check, data: Data) -> Parts:
    """Return the parts of `data` whose drop the mark limits; groups that it does not limit are clusters.

    Samples that only stand in for real ones have no parts, see `Dataset.placeholder`.

    Raises
    ------
    UsageError : the mark limits labels or groups, and the data has none.
    """
    drops = {} if check.dataset.stands_in else check.limits.drops
    if "group" in drops and data.groups is None:
        raise UsageError(
            f"max_drop limits each group, and {data.name} has none",
            fix="give the group of each sample: Dataset.from_arrays(inputs, labels, groups=groups)",
        )
    if "label" in drops:
        first = next(data.batches(1)).labels
        if first is None or first.dtype.kind not in "iub" or first.size != 1:
            raise UsageError(
                f"max_drop limits each label, and {data.name} has no class index for each sample",
                value=f"{data.labels} labels" + ("" if first is None else f" of shape {('n', *first.shape[1:])}"),
                fix="give integers (n,) as labels; or limit groups of samples, max_drop={'group': 2.0} with "
                "Dataset.from_arrays(inputs, labels, groups=groups)",
            )
    return Parts(drops.get("label"), drops.get("group"), data.groups, np.asarray(data.input_hashes))
