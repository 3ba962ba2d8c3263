"""The table of metrics by name: the built-in ones and those of the entry-point group ``pytest_quant.metrics``."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from pytest_quant.errors import UsageError, nearest
from pytest_quant.metrics.builtin import BUILTIN
from pytest_quant.metrics.metric import Metric, ResolvedMetric
from pytest_quant.metrics.wrapped import resolve_wrapped

GROUP = "pytest_quant.metrics"


@cache
def metrics_by_name() -> dict[str, ResolvedMetric | Metric]:
    """Every metric that a mark can name. Raises `UsageError` when two have the same name."""
    table: dict[str, ResolvedMetric | Metric] = dict(BUILTIN)
    for point in entry_points(group=GROUP):
        if point.name in table:
            raise UsageError(
                f"two packages register a metric named '{point.name}'",
                value=point.value,
                fix="uninstall one of them, or rename its entry point",
            )
        table[point.name] = _declared(point.name, point.load())
    return table


def _declared(name: str, value: object) -> Metric:
    if isinstance(value, Metric):
        return Metric(value.fn, value.better, value.unit, value.scale, name)
    raise UsageError(f"the metric '{name}' is registered as {type(value).__name__}", allowed="a pytest_quant.Metric")


def metric_by_name(name: str) -> ResolvedMetric | Metric:
    """Return the metric called `name`. Raises `UsageError` that names the nearest."""
    table = metrics_by_name()
    if name not in table:
        raise UsageError(f"unknown metric '{name}'", allowed=nearest(name, table))
    return table[name]


def resolve_metric(value: object | None, labels: str, output_shape: tuple[int, ...]) -> ResolvedMetric | None:
    """Return the metric for what a mark says, ``None`` when there is nothing to score.

    Parameters
    ----------
    value : a name, a `Metric`, or ``None`` for the default: top1 where labels are integers and the output is
        (n, classes).
    labels : ``none``, ``int`` or ``float``.
    """
    if value is None:
        return BUILTIN["top1"] if labels == "int" and len(output_shape) == 2 else None
    found = value if isinstance(value, Metric) else metric_by_name(_name(value))
    metric = resolve_wrapped(found, labels) if isinstance(found, Metric) else found
    if labels == "none":
        raise UsageError(
            f"the metric '{metric.name}' needs labels, and the data has none",
            fix="give labels, or limit min_agreement, min_sqnr_db or min_cosine, which need none",
        )
    if metric.reads_classes and (labels != "int" or len(output_shape) != 2):
        raise UsageError(
            f"the metric '{metric.name}' needs class labels and an output (n, classes)",
            value=f"{labels} labels, output of shape {output_shape}",
            fix="name another metric, or another output of the model with output='...'",
        )
    return metric


def _name(value: object) -> str:
    if isinstance(value, str):
        return value
    raise UsageError(
        "metric must be a name or a Metric",
        value=repr(value),
        fix="wrap a callable, Metric(fn, better='higher'): its direction cannot be guessed",
    )
