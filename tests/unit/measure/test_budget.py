"""One budget for the first measurement and the one that confirms a broken limit, on simulated time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_quant.measure.latency import measure
from pytest_quant.measure.timing import CONFIRMING, timed_within
from pytest_quant.result import LatencyResult, Status
from pytest_quant.spec import LatencyPlan, Limits
from pytest_quant.verdict.latency import latency_verdicts
from tests.unit.measure.simulated import SimulatedTime


@dataclass
class Check:
    """A check of two engines of known speed against a limit on the speedup."""

    reference_ms: float
    candidate_ms: float
    limit: float | None
    time: SimulatedTime = field(default_factory=SimulatedTime)
    plans: list[LatencyPlan] = field(default_factory=list)

    def once(self, plan: LatencyPlan) -> LatencyResult:
        """Measure in fresh sessions."""
        self.plans.append(plan)
        reference, null, candidate = map(self.time.engine, (self.reference_ms, self.reference_ms, self.candidate_ms))
        return measure(reference, null, candidate, plan, clock=self.time.clock, machine=self.time.quiet)

    def run(self, max_s: float = 10.0) -> LatencyResult:
        """Time the check within `max_s`."""
        plan = LatencyPlan(max_s=max_s, min_speedup=self.limit)
        return timed_within(plan, self.once, lambda found: Status.FAIL in self.statuses(found))

    def statuses(self, found: LatencyResult) -> list[Status]:
        """What the limit says."""
        return [verdict.status for verdict in latency_verdicts(Limits(min_speedup=self.limit), found)]


@given(run_ms=st.floats(0.05, 10_000), max_s=st.floats(0.1, 30), limit=st.sampled_from([None, 0.5, 2.0]))
@settings(max_examples=40)
def test_both_measurements_fit_into_the_budget(run_ms: float, max_s: float, limit: float | None) -> None:
    """A broken limit is measured twice, and both together take no longer, but for one run of each engine."""
    check = Check(run_ms, run_ms, limit)
    found = check.run(max_s)
    assert check.time.now_ns / 1e9 <= max(max_s, 3 * run_ms / 1e3) + 1e-6 + (3 * run_ms / 1e3 if found.repeat else 0.0)


def test_a_slow_engine_that_breaks_its_limit_fails_within_the_default_budget() -> None:
    """Runs of 80 ms against a limit of x2 that an equal engine does not reach: ten seconds tell it twice."""
    check = Check(80.0, 80.0, 2.0)
    found = check.run()
    assert check.statuses(found) == [Status.FAIL]
    assert found.repeat is not None
    assert found.spent_s <= 6.0
    assert check.time.now_ns <= 10e9
    assert check.plans[0].seed != check.plans[1].seed


def test_without_a_limit_one_measurement_has_all_of_it() -> None:
    """Nothing needs to be confirmed."""
    check = Check(1.0, 1.0, None)
    assert check.run(7.0).repeat is None
    assert [plan.max_s for plan in check.plans] == [7.0]


def test_a_budget_too_short_to_confirm_is_inconclusive() -> None:
    """The first measurement fails, and the second has too few rounds: that is told, and nothing fails."""
    check = Check(125.0, 125.0, 2.0)
    found = check.run()
    assert check.statuses(replace(found, repeat=None)) == [Status.FAIL]
    assert check.statuses(found) == [Status.INCONCLUSIVE]
    assert found.repeat is not None
    assert found.repeat.reasons[0].startswith("too few rounds within 4 s")


def test_a_limit_leaves_the_second_measurement_its_share() -> None:
    """Six of ten seconds for the first, and all that it did not take for the second."""
    check = Check(1.0, 1.0, 1.5)
    found = check.run(10.0)
    assert [plan.max_s for plan in check.plans] == pytest.approx([6.0, 10.0 - found.spent_s])


@pytest.mark.parametrize(("limit", "apart"), [(0.99, 1), (3.0, 0)])
def test_a_close_failure_is_confirmed_in_a_fresh_process(limit: float, apart: int) -> None:
    """A ratio of 0.98 against a limit near it might be that of this process; against x3 it is no matter of one."""
    check = Check(1.0, 1.0 / 0.98, limit)
    fresh: list[LatencyPlan] = []

    def measure_apart(plan: LatencyPlan) -> LatencyResult:
        fresh.append(plan)
        return check.once(plan)

    plan = LatencyPlan(min_speedup=limit)
    found = timed_within(plan, check.once, lambda found: Status.FAIL in check.statuses(found), measure_apart)
    assert check.statuses(found) == [Status.FAIL]
    assert len(fresh) == apart
    assert len(check.plans) == 2
    assert check.plans[1].confidence == CONFIRMING


@pytest.mark.parametrize(("limit_ms", "apart"), [(1.0 / 1.015, 1), (0.5, 0)])
def test_a_close_median_is_confirmed_in_a_fresh_process(limit_ms: float, apart: int) -> None:
    """A limit on milliseconds is judged by the same rule."""
    check = Check(1.0, 1.0, None)
    fresh: list[LatencyPlan] = []

    def measure_apart(plan: LatencyPlan) -> LatencyResult:
        fresh.append(plan)
        return check.once(plan)

    limits = Limits(max_latency_ms=((50.0, limit_ms),))
    plan = LatencyPlan(max_latency_ms=limits.max_latency_ms)
    found = timed_within(plan, check.once, lambda one: breaks(limits, one), measure_apart)
    assert found.repeat is not None
    assert len(fresh) == apart


def breaks(limits: Limits, found: LatencyResult) -> bool:
    """Whether one of these limits fails."""
    return any(verdict.status is Status.FAIL for verdict in latency_verdicts(limits, found))
