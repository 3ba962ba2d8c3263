"""Task metrics and tensor metrics: pure functions of reference and candidate outputs."""

from pytest_quant.metrics.builtin import metric_by_name, resolve_metric
from pytest_quant.metrics.metric import Metric, ResolvedMetric

__all__ = ["Metric", "ResolvedMetric", "metric_by_name", "resolve_metric"]
