"""What to do about latency that could not be judged, as far as the measurement itself tells."""

from __future__ import annotations

from pytest_quant.result import Hint, LatencyResult
from pytest_quant.spec import LatencyPlan

_LONGER = 6
_TOO_SHORT = "too few rounds"


def timing_hints(latency: LatencyResult | None, plan: LatencyPlan | None) -> tuple[Hint, ...]:
    """Return one hint for each reason why the numbers of `latency` cannot be trusted."""
    if latency is None or plan is None:
        return ()
    return tuple(
        Hint(reason, f"--quant-max-time={_LONGER * plan.max_s:g}")
        if reason.startswith(_TOO_SHORT)
        else Hint(f"measure on a quiet machine: {reason}")
        for reason in latency.reasons
    )
