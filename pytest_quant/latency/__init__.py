"""Reference, an A/A null and the candidate, timed interleaved in one process. Measures, and never judges.

Each round times every engine once, in random order; the first run of a block is dropped; the statistic is the
median over rounds of the log ratio of block medians. Timing the two sides one after the other gives 10 to 33 %
false alarms on a shared machine, interleaving them 0 to 3 %.
"""

from __future__ import annotations

import random
import time

from pytest_quant.latency.block import Block, Call, Clock, time_block
from pytest_quant.latency.figures import latency_figures
from pytest_quant.latency.warmup import warm_up
from pytest_quant.result import LatencyResult
from pytest_quant.spec import LatencyPlan

__all__ = ["Call", "Clock", "measure"]

_NS_PER_S = 1e9


def measure(
    reference: Call, null: Call, candidate: Call, plan: LatencyPlan, *, clock: Clock = time.perf_counter_ns
) -> LatencyResult:
    """Time the three calls in rounds until every limit of `plan` is decided or its budget is spent.

    Parameters
    ----------
    null : a second session of the reference; what differs between the two is noise.
    plan : budgets, limits to decide and the seed of order and bootstrap.
    clock : nanoseconds.
    """
    calls = (reference, null, candidate)
    runs = [warm_up(call, plan, clock) for call in calls]
    blocks: tuple[list[Block], list[Block], list[Block]] = ([], [], [])
    order = random.Random(plan.seed)  # noqa: S311 - an order, not a secret
    until = clock() + plan.max_s * _NS_PER_S
    while True:
        for index in order.sample(range(3), 3):
            blocks[index].append(time_block(calls[index], runs[index], clock))
        rounds = len(blocks[0])
        spent = rounds >= plan.max_rounds or clock() >= until
        looking = rounds >= plan.min_rounds and (rounds - plan.min_rounds) % plan.look_every == 0
        if (spent and rounds >= 2) or looking:
            result = latency_figures(*blocks, plan)
            if spent or _decided(result, plan):
                return result


def _decided(result: LatencyResult, plan: LatencyPlan) -> bool:
    """Whether each limit lies outside its interval; without limits, whether the speedup is precise enough."""
    if result.reasons:
        return False
    if plan.min_speedup is None and not plan.max_latency_ms:
        return result.half_width_pct <= 100.0 * plan.precision
    if plan.min_speedup is not None and result.speedup_ci.low < plan.min_speedup <= result.speedup_ci.high:
        return False
    bounds = {percentile: (low, high) for percentile, low, high in result.percentile_bounds_ms}
    for percentile, allowed in plan.max_latency_ms:
        low, high = bounds[percentile]
        below, above = high is not None and high <= allowed, low is not None and low > allowed
        if not (below or above):
            return False
    return True
