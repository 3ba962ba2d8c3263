"""Running until the times settle, and finding how many runs make a block."""

from __future__ import annotations

import math
import statistics

from pytest_quant.latency.block import Call, Clock, time_block
from pytest_quant.spec import LatencyPlan

_AGREE = 0.03
_BLOCKS = 3
_MAX_RUNS = 1000
_NS_PER_S = 1e9


def warm_up(call: Call, plan: LatencyPlan, clock: Clock) -> int:
    """Run `call` until the last three block medians agree within 3 %, and return the runs of one block.

    Gives up after `plan.max_warmup_s`: a machine that never settles is told by the null and the intervals.
    """
    until = clock() + plan.max_warmup_s * _NS_PER_S
    runs, medians = plan.min_runs, list[float]()
    while True:
        medians.append(statistics.median(time_block(call, runs, clock).runs_ns))
        runs = _runs_of_block(medians[-1], plan)
        last = medians[-_BLOCKS:]
        settled = len(last) == _BLOCKS and max(last) <= (1.0 + _AGREE) * min(last)
        if settled or clock() >= until:
            return runs


def _runs_of_block(median_ns: float, plan: LatencyPlan) -> int:
    enough = math.ceil(plan.min_block_s * _NS_PER_S / max(median_ns, 1.0))
    return min(max(enough, plan.min_runs), _MAX_RUNS)
