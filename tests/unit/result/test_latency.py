"""Figures of latency with wider intervals: each field that holds one, found by the types of the fields."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.result import Interval, LatencyResult, OverLaunches, PercentileBound, TokenTime
from tests.unit.record.examples import LATENCY

OF_ITS_OWN = {"repeat"}
"""A second measurement, which has its own reasons to be widened."""

ENDS = st.tuples(st.floats(0.01, 100.0), st.floats(1.0, 3.0)).map(lambda span: Interval(span[0], span[0] * span[1]))


def holds_an_interval(kind: Any) -> bool:
    """Whether values of an annotated type are intervals, or have some in their fields."""
    if kind in (Interval, PercentileBound):
        return True
    parts = get_type_hints(kind).values() if is_dataclass(kind) else get_args(kind)
    return any(holds_an_interval(part) for part in parts)


def intervals(value: Any, where: str = "") -> Iterator[tuple[str, Interval]]:
    """Yield each interval in a value with the fields that lead to it."""
    if isinstance(value, Interval):
        yield where, value
    elif isinstance(value, PercentileBound):
        assert value.low_ms is not None
        assert value.high_ms is not None
        yield where, Interval(value.low_ms, value.high_ms)
    elif isinstance(value, tuple):
        for index, part in enumerate(value):
            yield from intervals(part, f"{where}[{index}]")
    elif is_dataclass(value):
        for each in fields(value):
            if each.name not in OF_ITS_OWN:
                yield from intervals(getattr(value, each.name), f"{where}.{each.name}")


def with_intervals(*ends: Interval) -> LatencyResult:
    """Return a latency with six intervals of its own."""
    speedup, null, p50, token, over_speedup, over_p50 = ends
    return replace(
        LATENCY,
        speedup_ci=speedup,
        null_ratio_ci=null,
        percentile_bounds=(PercentileBound(50.0, *p50),),
        tokens=(TokenTime("ttft", None, token.low, token), TokenTime("tpot", None, None, None)),
        over=OverLaunches(3, 1.0, over_speedup, 1.0, over_p50),
    )


def half_width(span: Interval) -> float:
    """Return how far the ends lie from the middle, as a natural logarithm."""
    return math.log(span.high / span.low) / 2.0


@given(ends=st.tuples(*[ENDS] * 6), reach=st.floats(1.0, 3.0), times=st.floats(1.0, 2.0))
def test_every_interval_reaches_further_around_the_same_middle(
    ends: tuple[Interval, ...], reach: float, times: float
) -> None:
    """The half-width h becomes reach * h + log(times), in each field that can hold an interval by its type."""
    latency = with_intervals(*ends)
    before, after = dict(intervals(latency)), dict(intervals(latency.wider(reach=reach, times=times)))
    typed = {name for name, kind in get_type_hints(LatencyResult).items() if holds_an_interval(kind)}
    assert {name.split(".")[1].split("[")[0] for name in before} == typed - OF_ITS_OWN
    assert len(before) == len(ends)
    assert after.keys() == before.keys()
    for name, span in before.items():
        wider = after[name]
        assert half_width(wider) == pytest.approx(reach * half_width(span) + math.log(times), abs=1e-9), name
        assert wider.low * wider.high == pytest.approx(span.low * span.high), name


def test_half_width_follows_the_interval_and_nothing_else_changes() -> None:
    """Figures, the second measurement and times without an interval stay."""
    latency = replace(with_intervals(*[Interval(0.5, 2.0)] * 6), speedup=1.0, repeat=LATENCY)
    wider = latency.wider(times=2.0)
    assert wider.speedup_ci == (0.25, 4.0)
    assert wider.half_width_pct == 50.0 * 3.75
    assert (wider.repeat, wider.tokens[1], wider.speedup) == (LATENCY, latency.tokens[1], 1.0)
    assert latency.wider().speedup_ci == latency.speedup_ci


def test_an_end_without_its_partner() -> None:
    """It moves by a factor; how far it is from a middle that nobody knows, nobody knows."""
    bounds = PercentileBound(99.0, 3.0, None), PercentileBound(90.0, None, 3.0), PercentileBound(95.0, None, None)
    latency = replace(LATENCY, percentile_bounds=bounds)
    moved = [(bound.low_ms, bound.high_ms) for bound in latency.wider(times=1.5).percentile_bounds]
    assert moved == [(2.0, None), (None, 4.5), (None, None)]
    unknown = latency.wider(reach=2.0).percentile_bounds
    assert all((bound.low_ms, bound.high_ms) == (None, None) for bound in unknown)


def test_an_interval_of_too_few_rounds_stays_endless() -> None:
    """0 to infinity has no width to double."""
    endless = Interval(0.0, math.inf)
    assert replace(LATENCY, speedup_ci=endless).wider(reach=2.0, times=1.5).speedup_ci == endless
