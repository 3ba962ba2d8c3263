"""What a check scores: the outputs that it reads, and the metric that it computes."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_quant.backends import Outputs
from pytest_quant.data import Data
from pytest_quant.errors import DataError, UsageError, nearest
from pytest_quant.measure.judged_parts import find_parts
from pytest_quant.metrics import ResolvedMetric, resolve_metric
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
