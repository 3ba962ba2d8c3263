"""The seconds that a run may spend on measuring latency, and how its checks share them.

pytest runs checks one after another and gives the verdict of each before it begins the next, so that nothing can be
spent on an earlier one once a later one turns out to need nothing. Each check is given an equal share of what is left;
what it does not use passes on to those behind it. Within its share the fewest rounds come first, then more rounds and
launches, and these only where a limit is in doubt and the share may decide it. In a run of xdist's each worker has its
part of the total.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pytest_quant.result import LatencyResult
from pytest_quant.spec import Check, LatencyPlan
from pytest_quant.stats.one_sample import LOOKS, launches_for
from pytest_quant.stats.runner import draw_of


class TotalTime:
    """Keeps the accounts of one process.

    Parameters
    ----------
    total_s : for all checks of the process; infinite for no bound.
    checks : how many there will be, as far as is known; more of them share what is left.
    """

    def __init__(self, total_s: float = math.inf, checks: int = 1) -> None:
        self._total_s = total_s
        self._left_s = total_s
        self._checks = checks
        self._share_s = total_s
        self._cuts = False

    @property
    def bounded(self) -> bool:
        """Whether there is a bound."""
        return math.isfinite(self._total_s)

    @property
    def share_s(self) -> float:
        """Seconds that the check under way has left."""
        return max(self._share_s, 0.0)

    def begin(self, check: Check) -> Check:
        """Give a check its share, and return it with a plan that keeps to it.

        Without a limit on latency it is timed for the fewest rounds; where nothing is left it is not timed at all.
        """
        if check.latency is None or not self.bounded:
            return check
        self._share_s = self._left_s / max(self._checks, 1)
        self._checks -= 1
        if self.share_s == 0.0:
            return replace(check, latency=None, latency_off=f"the {self._total_s:g} s of --quant-total-time are spent")
        self._cuts = self.share_s < check.latency.max_s
        plan = replace(check.latency, max_s=min(check.latency.max_s, self.share_s))
        if not check.limits.on_latency:
            plan = replace(plan, max_rounds=plan.min_rounds)
        return replace(check, latency=plan)

    def spend(self, seconds: float) -> None:
        """Take what a measurement took off the share of its check and off the total."""
        self._share_s -= seconds
        self._left_s = max(self._left_s - seconds, 0.0)

    def refusal(self, plan: LatencyPlan, latency: LatencyResult, launches: int, launch_s: float) -> str:
        """Return why a limit in doubt is given no further launches; empty where they may decide it.

        Parameters
        ----------
        plan : the limits.
        latency : of the first launch.
        launches : all there would be, next.
        launch_s : seconds that one more is expected to take.
        """
        if not self.bounded:
            return ""
        needed = max([launches, *_needed(plan, latency)])
        told = f"its share of the {self._total_s:g} s of --quant-total-time has {self.share_s:.3g} s left"
        if needed > LOOKS[-1]:
            return f"{told}, and the limit is so near that {LOOKS[-1]} launches would not decide it"
        if (needed - 1) * launch_s > self.share_s:
            return f"{told}, and about {needed} launches of {launch_s:.2g} s would decide it"
        return ""

    def first(self, latency: LatencyResult) -> LatencyResult:
        """Take what the first measurement spent; return it with the reason for its length where that is this bound."""
        self.spend(latency.spent_s + (0.0 if latency.repeat is None else latency.repeat.spent_s))
        if not self._cuts:
            return latency
        return replace(latency, cut=f"its share of the {self._total_s:g} s of --quant-total-time is spent")


def _needed(plan: LatencyPlan, latency: LatencyResult) -> list[int]:
    """Return about how many launches would decide each limit on what launches tell; none for a limit that is broken."""
    candidate = [math.log(one) for one in latency.candidate.medians_ns]
    ratio = [math.log(one) - two for one, two in zip(latency.reference.medians_ns, candidate, strict=True)]
    limits = [] if plan.min_speedup is None else [(math.log(latency.speedup / plan.min_speedup), ratio)]
    limits += [
        (math.log(latency.candidate_p50_ms / allowed), candidate)
        for percentile, allowed in plan.max_latency_ms
        if percentile == 50.0
    ]
    sds = [math.hypot(draw_of(logs).error, plan.session_sd) for _, logs in limits]
    return [launches_for(distance, sd) for (distance, _), sd in zip(limits, sds, strict=True)]
