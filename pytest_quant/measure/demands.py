"""What only the data and the model can tell about a mark, told before anything is measured."""

from __future__ import annotations

from pytest_quant.backends import Outputs
from pytest_quant.data import Data
from pytest_quant.errors import DataError, UsageError, nearest
from pytest_quant.metrics import ResolvedMetric, resolve_metric
from pytest_quant.spec import Check

_METRIC_LIMITS = ("max_drop", "min_ratio", "min_accuracy", "max_drop_increase")


def choose_output(check: Check, first_outputs: Outputs) -> str:
    """Return the output that the metric reads: the mark's ``output``, else the first one.

    Raises
    ------
    UsageError : the mark names an output, there or in a limit, that the model does not have.
    """
    for limit, name in check.limits.by_output:
        if name not in first_outputs:
            raise UsageError(
                f"{limit} limits an output '{name}', which the model does not have",
                allowed=nearest(name, first_outputs),
            )
    if check.output is None:
        return next(iter(first_outputs))
    if check.output not in first_outputs:
        raise UsageError(f"the model has no output '{check.output}'", allowed=nearest(check.output, first_outputs))
    return check.output


def choose_metric(check: Check, data: Data, output_shape: tuple[int, ...]) -> ResolvedMetric | None:
    """Return the metric to compute, or ``None`` when the mark asks for none and the data suggests none.

    Raises
    ------
    UsageError : a limit needs a metric and there is none; the message says which and why.
    DataError : a label is not one of the classes that the output has.
    """
    metric = resolve_metric(check.metric, data.labels, output_shape, data.label_type)
    if metric is None:
        asked = [name for name in _METRIC_LIMITS if getattr(check.limits, name) is not None]
        if asked:
            _refuse(asked[0], data, output_shape)
        return None
    if metric.reads_classes and data.label_range is not None:
        _check_labels(data.label_range, output_shape)
    return metric


def _refuse(limit: str, data: Data, output_shape: tuple[int, ...]) -> None:
    if data.labels == "none":
        raise UsageError(
            f"{limit} needs labels, and {data.name} has none",
            allowed="without labels: min_agreement, min_sqnr_db, min_cosine, max_abs_error",
            fix="give labels, Dataset.from_arrays(inputs, labels), or set min_agreement=99 in place of it",
        )
    raise UsageError(
        f"{limit} needs a metric here",
        value=f"{f'labels of type {data.label_type}' if data.label_type else f'{data.labels} labels'}, "
        f"output of shape {output_shape}",
        allowed="top1 is the default for integer labels and an output (n, classes) only",
        fix="name one in the mark, metric='mae', or wrap yours: metric=Metric(fn, better='higher')",
    )


def _check_labels(label_range: tuple[float, float], output_shape: tuple[int, ...]) -> None:
    low, high = label_range
    if len(output_shape) == 2 and not (low >= 0 and high < output_shape[1]):
        raise DataError(
            "a label is not one of the model's classes",
            value=f"labels from {low:g} to {high:g}",
            allowed=f"0 to {output_shape[1] - 1}, for an output with {output_shape[1]} classes",
            fix="map the labels to the order of the model's classes",
        )
