"""One budget for a whole check: the first measurement, and the second one that confirms a broken limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_quant.result import LatencyResult
from pytest_quant.spec import LatencyPlan

FIRST_SHARE = 0.6
"""Of the budget, for the first measurement where a limit may need a second one.

The half-width of an interval falls with the square root of the time, so that 40 % of the time give one that is
sqrt(0.6 / 0.4) = 1.22 times as wide as that of 60 %: what the first finds broken by more than its own width, the second
can confirm. A limit that is clearly broken is decided by the least rounds, and leaves the second one more.
"""


def timed_within(
    plan: LatencyPlan,
    measure_once: Callable[[LatencyPlan], LatencyResult],
    breaks: Callable[[LatencyResult], bool],
) -> LatencyResult:
    """Measure; where that breaks a limit, measure again, and keep the second result as the first one's `repeat`.

    Parameters
    ----------
    plan : its `max_s` bounds both measurements together; without a limit the first has all of it.
    measure_once : measures in fresh sessions; opening them is no part of the budget.
    breaks : whether a limit is broken.
    """
    limited = plan.min_speedup is not None or bool(plan.max_latency_ms)
    first = measure_once(replace(plan, max_s=plan.max_s * (FIRST_SHARE if limited else 1.0)))
    if not breaks(first):
        return first
    left_s = max(plan.max_s - first.spent_s, 0.0)
    return replace(first, repeat=measure_once(replace(plan, max_s=left_s, seed=plan.seed + 1)))
