"""Running until the times settle, and how many runs then make a block."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from pytest_quant.latency.block import Call, Clock, time_block
from pytest_quant.spec import LatencyPlan
from pytest_quant.stats.percentile import runs_needed

_AGREE = 0.03
_BLOCKS = 3
_MAX_RUNS = 1000
_ENGINES = 3
_WARMUP_SHARE = 0.1
_SLACK = 2.0
"""The least number of rounds fits into the budget so many times: a neighbour may halve the speed meanwhile."""
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Warm:
    """An engine after warming up.

    Attributes
    ----------
    first_ns : nanoseconds of its very first run.
    run_ns : of the last block's median run; of the first run where there was no time for a block.
    settled : whether the times had settled.
    """

    first_ns: int
    run_ns: float
    settled: bool


def warm_up(call: Call, plan: LatencyPlan, clock: Clock) -> Warm:
    """Run `call` until the last three block medians agree within 3 %, or `warmup_s` of the plan are over.

    One run is made in any case; after it no block is begun that would last longer than the time that is left.
    An engine that never settles is timed all the same: interleaving gives every engine the same weather.
    """
    until = clock() + warmup_s(plan) * _NS_PER_S
    first_ns = time_block(call, 0, clock).cold_ns
    medians = [float(first_ns)]
    while (runs := min(_runs(medians[-1], plan), int((until - clock()) / medians[-1]) - 1)) >= 1:
        medians.append(statistics.median(time_block(call, runs, clock).runs_ns))
        last = medians[-_BLOCKS:]
        if len(medians) > _BLOCKS and max(last) <= (1.0 + _AGREE) * min(last):
            return Warm(first_ns, medians[-1], settled=True)
    return Warm(first_ns, medians[-1], settled=False)


def warmup_s(plan: LatencyPlan) -> float:
    """Seconds to warm one engine: `plan.max_warmup_s`, and no more than a tenth of all that there is for three."""
    return min(plan.max_warmup_s, _WARMUP_SHARE * plan.max_s)


def runs_of_block(run_ns: float, plan: LatencyPlan, left_s: float, percentiles: tuple[float, ...] = ()) -> int:
    """Return how many runs of `run_ns` nanoseconds make a block, with `left_s` seconds for all rounds.

    Enough to last `plan.min_block_s`, at least `plan.min_runs`, and so many that half of the rounds suffice to bound
    each of `percentiles`; but fewer where twice the least number of rounds would not fit into `left_s` otherwise:
    many short blocks tell more than few long ones.
    """
    runs = _runs(run_ns, plan)
    for percentile in percentiles:
        runs = max(runs, math.ceil(2 * runs_needed(percentile, plan.confidence) / plan.max_rounds))
    block_ns = left_s * _NS_PER_S / (_ENGINES * _SLACK * plan.min_rounds)
    return max(1, min(runs, int(block_ns / max(run_ns, 1.0)) - 1))


def _runs(run_ns: float, plan: LatencyPlan) -> int:
    enough = math.ceil(plan.min_block_s * _NS_PER_S / max(run_ns, 1.0))
    return min(max(enough, plan.min_runs), _MAX_RUNS)
