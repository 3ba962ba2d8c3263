"""A figure with its interval beside its limit, as a small drawing."""

from __future__ import annotations

import math
import re

from pytest_quant.printable import clean
from pytest_quant.record import LatencyFigures, Record
from pytest_quant.report.page.axis import Axis
from pytest_quant.report.page.content import IntervalPlot, Tick
from pytest_quant.report.text import figure
from pytest_quant.result import Interval, Status, Verdict
from pytest_quant.verdict.rules import written

_EDGE = 8.0
_TEXT_EDGE = 20.0
_PERCENTILE = re.compile(r"max_latency_ms(?:\[p(?P<percentile>[\d.]+)\])?")


def interval_plot(record: Record, verdict: Verdict) -> IntervalPlot | None:
    """Return the drawing of one verdict; ``None`` for one that compares no figure with a limit."""
    allowed, observed = verdict.allowed, verdict.observed
    if allowed is None or observed is None or not (math.isfinite(allowed) and math.isfinite(observed)):
        return None
    span = interval_of(record, verdict.limit)
    ends = [] if span is None else [span.low, span.high]
    axis = Axis.around([float(allowed), observed, *ends], _EDGE, IntervalPlot.WIDTH - _EDGE)
    limit = axis.at(float(allowed))
    below = verdict.limit.startswith("max_")
    middle = min(max(limit, _TEXT_EDGE), IntervalPlot.WIDTH - _TEXT_EDGE)
    around = "" if span is None else f", interval {figure(span.low)} to {figure(span.high)}"
    return IntervalPlot(
        limit=limit,
        value=axis.at(observed),
        low=None if span is None else axis.at(span.low),
        high=None if span is None else axis.at(span.high),
        broken=verdict.status is Status.FAIL,
        allowed_from=0.0 if below else limit,
        allowed_to=limit if below else float(IntervalPlot.WIDTH),
        ticks=(Tick(middle, written(allowed)),),
        about=f"{clean(verdict.limit)}: {figure(observed)}{around}; {'at most' if below else 'at least'} "
        f"{written(allowed)} is allowed: {verdict.status.value}",
    )


def interval_of(record: Record, limit: str) -> Interval | None:
    """Return the interval that the figure of a limit was judged on; ``None`` where the record has none.

    Of several launches the verdict has an interval of its own, which is not that of the launch in the record.
    """
    accuracy, latency, resources = record.accuracy, record.latency, record.resources
    if accuracy is not None and limit in _OF_ACCURACY:
        found: Interval | None = getattr(accuracy, _OF_ACCURACY[limit])
        return found
    if resources is not None and limit == "max_energy_mj":
        return resources.energy_mj_ci
    if latency is None or latency.launches:
        return None
    return latency.speedup_ci if limit == "min_speedup" else _of_percentile(latency, limit)


_OF_ACCURACY = {"max_drop": "drop_ci"}


def _of_percentile(latency: LatencyFigures, limit: str) -> Interval | None:
    named = _PERCENTILE.fullmatch(limit)
    if named is None:
        return None
    bound = latency.bound_of(float(named["percentile"] or 50))
    if bound is None or bound.low_ms is None or bound.high_ms is None:
        return None
    return Interval(bound.low_ms, bound.high_ms)
