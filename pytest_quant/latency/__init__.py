"""Reference, an A/A null and the candidate, timed interleaved in one process. Measures, and never judges.

Each round times every engine once, in random order; the first run of a block is dropped; the statistic is the
median over rounds of the log ratio of block medians. Timing the two sides one after the other gives 10 to 33 %
false alarms on a shared machine, interleaving them 0 to 3 %.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pytest_quant.latency.block import Block, Call, Clock, time_block
from pytest_quant.latency.figures import latency_figures
from pytest_quant.latency.machine import MachineState, machine_notes, read_machine
from pytest_quant.latency.warmup import Warm, runs_of_block, warm_up, warmup_s
from pytest_quant.result import LatencyResult
from pytest_quant.spec import LatencyPlan

__all__ = ["Call", "Clock", "measure"]

_NS_PER_S = 1e9
_NAMES = ("reference", "null", "candidate")


def measure(
    reference: Call,
    null: Call,
    candidate: Call,
    plan: LatencyPlan,
    *,
    clock: Clock = time.perf_counter_ns,
    machine: Callable[[], MachineState] = read_machine,
) -> LatencyResult:
    """Time the three calls in rounds until every limit of `plan` is decided or its budget is spent.

    Warming up counts to the budget. No round is begun that would last longer than what is left of it; where not even
    one fits, the first run of each engine is all there is, and the result says that it is too little.

    Parameters
    ----------
    null : a second session of the reference; what differs between the two is noise.
    plan : budgets, limits to decide and the seed of order and bootstrap.
    clock : nanoseconds.
    machine : reads the counters that tell what else the machine did.
    """
    before, started = machine(), clock()
    calls = (reference, null, candidate)
    warm = [warm_up(call, plan, clock) for call in calls]
    asked = tuple(percentile for percentile, _ in plan.max_latency_ms if percentile != 50.0)
    until = started + int(plan.max_s * _NS_PER_S)
    left_s = max(until - clock(), 0) / _NS_PER_S
    runs = [runs_of_block(one.run_ns, plan, left_s, of) for one, of in zip(warm, ((), (), asked), strict=True)]
    if _round_ns(runs, warm) * plan.min_rounds > left_s * _NS_PER_S:
        # One engine is too slow for its share, so the others give up theirs: rounds tell more than runs.
        runs = [1] * len(runs)
    if _round_ns(runs, warm) <= until - clock():
        result = _timed(calls, runs, plan, clock, until)
    else:
        of_reference, of_null, of_candidate = ([Block(one.first_ns, (one.first_ns,))] for one in warm)
        result = latency_figures(of_reference, of_null, of_candidate, plan)
    spent_s = (clock() - started) / _NS_PER_S
    notes = (*_unsettled(warm, plan), *result.notes, *machine_notes(before, machine()))
    return replace(result, spent_s=spent_s, notes=notes)


def _round_ns(runs: Sequence[int], warm: Sequence[Warm]) -> float:
    """Return how long one round lasts, the first run of each block included."""
    return sum((n + 1) * one.run_ns for n, one in zip(runs, warm, strict=True))


def _timed(calls: Sequence[Call], runs: Sequence[int], plan: LatencyPlan, clock: Clock, until: int) -> LatencyResult:
    """Add rounds until a look finds everything decided, or another would not be over at `until`."""
    blocks: tuple[list[Block], list[Block], list[Block]] = ([], [], [])
    order = random.Random(plan.seed)  # noqa: S311 - an order, not a secret
    while True:
        began = clock()
        for index in order.sample(range(len(calls)), len(calls)):
            blocks[index].append(time_block(calls[index], runs[index], clock))
        rounds, now = len(blocks[0]), clock()
        spent = rounds >= plan.max_rounds or now + (now - began) > until
        looking = rounds >= plan.min_rounds and (rounds - plan.min_rounds) % plan.look_every == 0
        if spent or looking:
            result = latency_figures(*blocks, plan)
            if spent or _decided(result, plan):
                return result


def _unsettled(warm: Sequence[Warm], plan: LatencyPlan) -> Iterator[str]:
    """Name the engines whose times still changed when warming up ended."""
    for name, one in zip(_NAMES, warm, strict=True):
        if not one.settled:
            yield f"warm-up: the {name} had not settled after {warmup_s(plan):g} s"


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
