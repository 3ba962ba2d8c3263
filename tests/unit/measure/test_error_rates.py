"""How often verdicts are wrong, and how often a slower engine is found, on simulated shared machines.

The simulated noise is that of a shared two-processor machine: over 20 rounds of 10 runs of 1.2 ms it gives the
speedup's interval a half-width of 1.1 %, where 0.9 to 1.1 % were measured, and sessions differ as measured.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from pytest_quant.measure.latency import measure
from pytest_quant.measure.timing import CONFIRMING
from pytest_quant.result import LatencyResult, Status
from pytest_quant.spec import LatencyPlan, Limits
from pytest_quant.verdict.latency import latency_verdicts
from tests.unit.measure.simulated import SimulatedTime

LAUNCHES = 100
LIMIT = 1 / 1.03
PLAN = LatencyPlan(min_speedup=LIMIT)
SESSION_SD = 0.004
NOISE, DRIFT, BURSTS = 0.05, 0.002, 0.0005


def launch(slower: float, seed: int, plan: LatencyPlan) -> LatencyResult:
    """Time an engine that is `slower` times as slow as its reference, in sessions of its own."""
    time = SimulatedTime(seed, noise=NOISE, drift=DRIFT, bursts=BURSTS)
    session = random.Random(seed)  # noqa: S311 - noise, not a secret
    reference, null, candidate = (
        time.engine(1.2 * factor * session.lognormvariate(0.0, SESSION_SD)) for factor in (1.0, 1.0, slower)
    )
    return measure(reference, null, candidate, replace(plan, seed=seed), clock=time.clock, machine=time.quiet)


def statuses(slower: float, plan: LatencyPlan = PLAN) -> Counter[Status]:
    """Judge so many launches against a limit of 3 %; as in a check, a FAIL is measured twice."""
    found: Counter[Status] = Counter()
    for seed in range(LAUNCHES):
        latency = launch(slower, seed, plan)
        (verdict,) = latency_verdicts(Limits(min_speedup=LIMIT), latency)
        if verdict.status is Status.FAIL:
            again = launch(slower, seed + LAUNCHES, replace(plan, confidence=CONFIRMING))
            (verdict,) = latency_verdicts(Limits(min_speedup=LIMIT), replace(latency, repeat=again))
        found[verdict.status] += 1
    return found


@pytest.mark.parametrize("slower", [1.0, 1.02])
def test_engines_within_the_limit_do_not_fail(slower: float) -> None:
    """Equally fast or 2 % slower where 3 % are allowed: at most 1 in 100 fails."""
    assert statuses(slower)[Status.FAIL] <= 0.01 * LAUNCHES


def test_equal_engines_pass() -> None:
    """Nearly all, the others are inconclusive: the noise between sessions is allowed for, whatever the rounds show."""
    found = statuses(1.0)
    assert found[Status.PASS] >= 0.90 * LAUNCHES
    assert found[Status.FAIL] == 0


def test_at_the_limit_hardly_anything_is_decided() -> None:
    """An engine that is as slow as it may be fails or passes in at most 2.5 of 100 launches, each; 6 with a margin."""
    found = statuses(1.03)
    assert max(found[Status.FAIL], found[Status.PASS]) <= 0.06 * LAUNCHES


def test_an_engine_slower_than_the_limit_fails() -> None:
    """One that is 5 % slower passes at most once in 100 launches, and 10 % slower fails in 99."""
    assert statuses(1.05)[Status.PASS] <= 0.01 * LAUNCHES
    assert statuses(1.10)[Status.FAIL] >= 0.99 * LAUNCHES


def test_longer_blocks_find_smaller_slowdowns() -> None:
    """An engine that is 5 % slower fails in 65 of 100 launches, and in 75 with blocks of ten runs to begin with."""
    assert statuses(1.05)[Status.FAIL] >= 0.65 * LAUNCHES
    assert statuses(1.05, replace(PLAN, min_runs=10))[Status.FAIL] >= 0.75 * LAUNCHES
