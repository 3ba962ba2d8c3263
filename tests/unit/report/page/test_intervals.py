"""A verdict as a drawing: where the figure, its interval and the limit stand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.record import PercentileBound, Record
from pytest_quant.report.page.content import IntervalPlot
from pytest_quant.report.page.intervals import interval_of, interval_plot
from pytest_quant.result import Interval, LaunchFigures, Status, Verdict
from tests.unit.record.examples import FAILED_DROP, a_record


def _drawn(record: Record, verdict: Verdict) -> IntervalPlot:
    plot = interval_plot(record, verdict)
    assert plot is not None
    return plot


def test_a_broken_maximum_lies_right_of_its_limit() -> None:
    """The interval is around the figure, and what is allowed is left of the limit."""
    plot = _drawn(a_record(), FAILED_DROP)
    assert plot.low is not None
    assert plot.high is not None
    assert plot.value is not None
    assert plot.limit < plot.low < plot.value < plot.high
    assert (plot.allowed_from, plot.allowed_to) == (0.0, plot.limit)
    assert plot.broken
    assert "3.18 to 5.31" in plot.about


def test_a_minimum_allows_what_is_right_of_it() -> None:
    """As min_speedup does."""
    plot = _drawn(a_record(), Verdict("min_speedup", 1.2, 1.9475, Status.PASS, ""))
    assert plot.value is not None
    assert plot.limit < plot.value
    assert (plot.allowed_from, plot.allowed_to) == (plot.limit, float(IntervalPlot.WIDTH))
    assert not plot.broken


def test_lengths_are_those_of_the_figures() -> None:
    """The share of the way from the limit to an end of the interval is that of the figures."""
    plot = _drawn(a_record(), FAILED_DROP)
    assert plot.low is not None
    assert plot.high is not None
    share = (plot.low - plot.limit) / (plot.high - plot.limit)
    assert share == pytest.approx((3.18 - 1.0) / (5.31 - 1.0), abs=0.002)


def test_an_interval_is_the_one_the_limit_was_judged_on() -> None:
    """Of the drop, of the speedup, of the percentile that the limit names; none where a side is not known."""
    record = a_record()
    assert interval_of(record, "max_drop") == Interval(3.18, 5.31)
    assert interval_of(record, "min_speedup") == Interval(1.9012, 1.9888)
    assert interval_of(record, "max_latency_ms") == Interval(0.2301, 0.2389)
    assert interval_of(record, "max_latency_ms[p99]") is None
    assert interval_of(record, "max_size_mb") is None


def test_of_several_launches_no_single_one_has_the_interval() -> None:
    """The verdict is on all of them."""
    record = a_record()
    assert record.latency is not None
    more = replace(record, latency=replace(record.latency, launches=(LaunchFigures("", 1.9, 0.2),)))
    assert interval_of(more, "min_speedup") is None
    assert interval_of(more, "max_latency_ms") is None


def test_a_percentile_with_both_sides_has_an_interval() -> None:
    """Written as the limit writes it."""
    record = a_record()
    assert record.latency is not None
    bounds = (PercentileBound(99.9, 0.3, 0.4),)
    tail = replace(record, latency=replace(record.latency, percentile_bounds=bounds))
    assert interval_of(tail, "max_latency_ms[p99.9]") == Interval(0.3, 0.4)


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict("max_drop", 1.0, None, Status.INCONCLUSIVE, ""),
        Verdict("outputs", None, None, Status.FAIL, ""),
        Verdict("max_drop", 1.0, float("inf"), Status.FAIL, ""),
    ],
)
def test_what_compares_no_figures_has_no_drawing(verdict: Verdict) -> None:
    """Nothing was measured, there is no limit, or it has no place."""
    assert interval_plot(a_record(), verdict) is None
