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
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Warm:
    """An engine after warming up: nanoseconds of its last block's median run, and whether the times had settled."""

    run_ns: float
    settled: bool


def warm_up(call: Call, plan: LatencyPlan, clock: Clock) -> Warm:
    """Run `call` until the last three block medians agree within 3 %, or `plan.max_warmup_s` is over.

    An engine that never settles is timed all the same: interleaving gives every engine the same weather.
    """
    until = clock() + plan.max_warmup_s * _NS_PER_S
    medians = [float(time_block(call, 0, clock).cold_ns)]
    while clock() < until:
        medians.append(statistics.median(time_block(call, _runs(medians[-1], plan), clock).runs_ns))
        last = medians[-_BLOCKS:]
        if len(medians) > _BLOCKS and max(last) <= (1.0 + _AGREE) * min(last):
            return Warm(medians[-1], settled=True)
    return Warm(medians[-1], settled=False)


def runs_of_block(run_ns: float, plan: LatencyPlan, percentiles: tuple[float, ...] = ()) -> int:
    """Return how many runs of `run_ns` nanoseconds make a block.

    Enough to last `plan.min_block_s`, at least `plan.min_runs`, and so many that half of the rounds suffice to bound
    each of `percentiles`; but fewer where the least number of rounds would not fit into `plan.max_s` otherwise: many
    short blocks tell more than few long ones.
    """
    runs = _runs(run_ns, plan)
    for percentile in percentiles:
        runs = max(runs, math.ceil(2 * runs_needed(percentile, plan.confidence) / plan.max_rounds))
    block_ns = plan.max_s * _NS_PER_S / (_ENGINES * plan.min_rounds)
    return max(1, min(runs, int(block_ns / max(run_ns, 1.0)) - 1))


def _runs(run_ns: float, plan: LatencyPlan) -> int:
    enough = math.ceil(plan.min_block_s * _NS_PER_S / max(run_ns, 1.0))
    return min(max(enough, plan.min_runs), _MAX_RUNS)
