"""The seconds of a run, and how its checks share them: on no clock at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.measure.total_time import TotalTime
from pytest_quant.result import Blocks, LatencyResult
from pytest_quant.spec import Check, LatencyPlan, Limits
from tests.unit.record.examples import LATENCY, a_check

LIMITED = replace(a_check(), limits=Limits(min_speedup=1.0), latency=LatencyPlan(max_s=10.0))


def plan_of(check: Check) -> LatencyPlan:
    """Return the plan of a check that is timed."""
    assert check.latency is not None
    return check.latency


def measured(spent_s: float, spread: float = 0.01) -> LatencyResult:
    """Return a result whose rounds vary by about `spread`, and whose engines are equal."""
    times = tuple((round(1e6 * (1.0 + spread * (index % 5 - 2))),) for index in range(40))
    steady = Blocks(((1_000_000,),) * 40)
    return replace(
        LATENCY, reference=steady, candidate=Blocks(times), speedup=1.0, candidate_p50_ms=1.0, spent_s=spent_s
    )


def test_without_a_bound_nothing_changes() -> None:
    """Neither a plan nor a result, and no launch is refused."""
    total = TotalTime()
    assert total.begin(LIMITED) is LIMITED
    found = measured(9.0)
    assert total.first(found) is found
    assert total.refusal(plan_of(LIMITED), found, 10, 1e9) == ""


def test_each_check_has_an_equal_share_of_what_is_left() -> None:
    """What one does not use passes on."""
    total = TotalTime(12.0, checks=3)
    shares = []
    for spent_s in (1.0, 5.5, 5.5):
        check = total.begin(LIMITED)
        shares.append(plan_of(check).max_s)
        total.first(measured(spent_s))
    assert shares == [4.0, 5.5, 5.5]
    nothing = total.begin(LIMITED)
    assert nothing.latency is None
    assert nothing.latency_off == "the 12 s of --quant-total-time are spent"


def test_a_share_is_no_more_than_the_check_asks_for() -> None:
    """And then it is not the share that cut it short."""
    total = TotalTime(100.0, checks=2)
    assert plan_of(total.begin(LIMITED)).max_s == 10.0
    assert total.first(measured(10.0)).cut == ""


def test_a_short_share_is_the_reason() -> None:
    """Of whatever is left undecided."""
    total = TotalTime(6.0, checks=3)
    total.begin(LIMITED)
    assert total.first(measured(2.0)).cut == "its share of the 6 s of --quant-total-time is spent"


def test_without_a_limit_the_fewest_rounds_are_enough() -> None:
    """More would decide nothing."""
    total = TotalTime(100.0, checks=1)
    plan = plan_of(total.begin(replace(LIMITED, limits=Limits())))
    assert plan.max_rounds == plan.min_rounds
    assert plan_of(TotalTime(100.0).begin(LIMITED)).max_rounds == plan_of(LIMITED).max_rounds


@pytest.mark.parametrize(
    ("limit", "share_s", "words"),
    [
        (1.01, 30.0, ""),
        (1.01, 3.0, "has 3 s left, and about 3 launches of 2 s would decide it"),
        (1.0005, 1000.0, "so near that 10 launches would not decide it"),
    ],
)
def test_launches_are_made_where_they_may_decide(limit: float, share_s: float, words: str) -> None:
    """A limit that lies 1 % off takes three, one that is met almost exactly more than there are."""
    total = TotalTime(share_s + 1.0, checks=1)
    plan = replace(plan_of(total.begin(LIMITED)), min_speedup=limit, session_sd=0.002)
    found = total.first(measured(1.0, spread=0.005))
    assert total.refusal(plan, found, 3, 2.0).endswith(words)
    assert bool(total.refusal(plan, found, 3, 2.0)) is bool(words)


def test_more_checks_than_were_counted() -> None:
    """Each of them has all that is left."""
    total = TotalTime(4.0, checks=1)
    for _ in range(2):
        total.begin(LIMITED)
        total.first(measured(1.0))
    assert total.share_s == 2.0
