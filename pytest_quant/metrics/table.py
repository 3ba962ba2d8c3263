"""The table of metrics by name: the built-in ones and those of the entry-point group ``pytest_quant.metrics``."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from pytest_quant.errors import UsageError, nearest
from pytest_quant.metrics.builtin import BUILTIN
from pytest_quant.metrics.metric import Metric, ResolvedMetric
from pytest_quant.metrics.wrapped import resolve_wrapped

GROUP = "pytest_quant.metrics"


@cache
def metrics_by_name() -> dict[str, ResolvedMetric | EntryPoint]:
    """Every metric that a mark can name, third parties' not loaded yet.

    Raises
    ------
    UsageError : two have the same name.
    """
    table: dict[str, ResolvedMetric | EntryPoint] = dict(BUILTIN)
    for point in entry_points(group=GROUP):
        taken = table.get(point.name)
        if taken is not None and not (isinstance(taken, EntryPoint) and taken.value == point.value):
            raise UsageError(
                f"two packages register a metric named '{point.name}'",
                value=f"{taken.value if isinstance(taken, EntryPoint) else 'built in'} and {point.value}",
                fix="uninstall one of them, or rename its entry point",
            )
        table[point.name] = point
    return table


@cache
def metric_by_name(name: str) -> ResolvedMetric | Metric:
    """Return the metric called `name`. Raises `UsageError` that names the nearest, or when it does not load."""
    table = metrics_by_name()
    if name not in table:
        raise UsageError(f"unknown metric '{name}'", allowed=nearest(name, table))
    found = table[name]
    return found if isinstance(found, ResolvedMetric) else _loaded(found)


def _loaded(point: EntryPoint) -> Metric:
    try:
        value = point.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the metric '{point.name}' does not load", value=f"{point.value}: {error}") from error
    if isinstance(value, Metric):
        return Metric(value.fn, value.better, value.unit, value.scale, point.name)
    raise UsageError(
        f"the metric '{point.name}' is registered as {type(value).__name__}",
        value=point.value,
        allowed="a pytest_quant.Metric",
    )


def resolve_metric(
    value: object | None, labels: str, output_shape: tuple[int, ...], label_type: str = ""
) -> ResolvedMetric | None:
    """Return the metric for what a mark says, ``None`` when there is nothing to score.

    Parameters
    ----------
    value : a name, a `Metric`, or ``None`` for the default: top1 where labels are integers and the output is
        (n, classes) with more than one class.
    labels : ``none``, ``int``, ``float`` or ``object``.
    label_type : what the objects are, for messages.

    Raises
    ------
    UsageError : a metric is named that is unknown, or that these labels or this output do not suit.
    """
    classes = output_shape[1] if len(output_shape) == 2 else 0
    if value is None:
        return BUILTIN["top1"] if labels == "int" and classes > 1 else None
    found = value if isinstance(value, Metric) else metric_by_name(_name(value))
    metric = resolve_wrapped(found) if isinstance(found, Metric) else found
    if labels == "none":
        raise UsageError(
            f"the metric '{metric.name}' needs labels, and the data has none",
            fix="give labels, or limit min_agreement, min_sqnr_db or min_cosine, which need none",
        )
    if labels == "object" and not metric.reads_objects:
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
            fix="name another metric, or another output of the model with output='...'",
        )
    return metric


def _name(value: object) -> str:
    if isinstance(value, str):
        return value
    raise UsageError(
        "metric must be a name or a Metric",
        value=repr(value),
        fix="wrap a callable, Metric(fn, better='higher', unit='%', scale=100): its direction cannot be guessed",
    )
