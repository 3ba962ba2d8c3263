"""Limits on latency that several launches decide together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.result import Interval, NoBaseline, OverLaunches, Status
from pytest_quant.spec import Limits
from pytest_quant.verdict import in_doubt
from pytest_quant.verdict.latency import latency_verdicts
from tests.unit.record.examples import LATENCY, a_check, found

OVER = OverLaunches(5, 1.5, Interval(1.4, 1.6), 0.25, Interval(0.24, 0.26))
LAUNCHED = replace(LATENCY, over=OVER)


@pytest.mark.parametrize(
    ("limit", "status", "word"),
    [(1.39, Status.PASS, "reaches"), (1.5, Status.INCONCLUSIVE, "encloses"), (1.61, Status.FAIL, "lies below")],
)
def test_min_speedup(limit: float, status: Status, word: str) -> None:
    """By the interval over all launches, whatever the first one says."""
    (verdict,) = latency_verdicts(Limits(min_speedup=limit), LAUNCHED)
    assert (verdict.status, verdict.observed) == (status, 1.5)
    assert verdict.reason == f"speedup x1.500 [1.400, 1.600] over 5 launches {word} x{limit}"


@pytest.mark.parametrize(
    ("limit", "status", "word"),
    [(0.27, Status.PASS, "lies within"), (0.25, Status.INCONCLUSIVE, "encloses"), (0.2, Status.FAIL, "lies above")],
)
def test_the_median(limit: float, status: Status, word: str) -> None:
    """Other percentiles are those of the first launch: launches keep one number of each kind."""
    limits = Limits(max_latency_ms=((50.0, limit), (99.0, 0.1)))
    median, p99 = latency_verdicts(limits, LAUNCHED)
    assert (median.status, median.observed) == (status, 0.25)
    assert median.reason == f"p50 [0.24, 0.26] ms over 5 launches {word} {limit} ms"
    assert p99 == next(latency_verdicts(Limits(max_latency_ms=((99.0, 0.1),)), LATENCY))


@pytest.mark.parametrize(
    ("limits", "doubt"),
    [
        (Limits(min_speedup=1.95), True),
        (Limits(min_speedup=1.0), False),
        (Limits(max_latency_ms=((50.0, 0.2345),)), True),
        (Limits(max_latency_ms=((99.0, 0.5),)), False),
        (Limits(max_slowdown=3.0), False),
        (Limits(), False),
    ],
)
def test_doubt_that_launches_can_settle(limits: Limits, doubt: bool) -> None:
    """An undecided limit on what each launch tells; a percentile is none, and neither is one without a baseline."""
    checked = found(replace(a_check(), limits=limits))
    assert in_doubt(checked, NoBaseline("nothing was accepted")) is doubt
