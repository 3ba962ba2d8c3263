"""The key `metric`, and the limit that is in its unit."""

from __future__ import annotations

from pytest_quant.errors import UsageError
from pytest_quant.marks.values import plain_number, refuse_share
from pytest_quant.metrics import Metric, metric_by_name


def read_metric(value: object | None) -> str | Metric | None:
    """Read a metric's name or a `Metric`; an unknown name is a `UsageError` that names the nearest."""
    if value is None or isinstance(value, Metric):
        return value
    if isinstance(value, str):
        metric_by_name(value)
        return value
    raise UsageError(
        "metric must be a name or a Metric",
        value=repr(value),
        allowed="the direction of a bare callable cannot be guessed",
        fix="wrap it: metric=pytest_quant.Metric(fn, better='higher', unit='%', scale=100)",
    )


def check_accuracy(value: object | None, metric: str | Metric | None) -> None:
    """Refuse a `min_accuracy` written as a share when the metric is in percent."""
    if value is None:
        return
    found = metric_by_name(metric) if isinstance(metric, str) else metric
    if found is None or found.unit == "%":
        refuse_share("min_accuracy", value, plain_number("min_accuracy", value))
