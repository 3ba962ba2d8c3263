"""Timing of a check's engines, alone on their devices, at most twice and within one budget."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pytest_quant.errors import LaunchError
from pytest_quant.measure.engines import Tools
from pytest_quant.measure.launch import Launch, Launchable
from pytest_quant.measure.sessions import Subject, open_sessions
from pytest_quant.result import Interval, LatencyResult
from pytest_quant.spec import Check, LatencyPlan

Breaks = Callable[[Check, LatencyResult], bool]
"""Whether a latency breaks a limit of the check."""

FIRST_SHARE = 0.6
"""Of the budget, for the first measurement where a limit may need a second one.

The half-width of an interval falls with the square root of the time, so that 40 % of the time give one that is
sqrt(0.6 / 0.4) = 1.22 times as wide as that of 60 %: the second measurement can confirm what the first finds broken by
more than its own width. A limit that is clearly broken is decided by the fewest rounds, which leaves the second
measurement more time.
"""

CONFIRMING = 0.8
"""Confidence of the second measurement's intervals: it repeats a finding, and does not look for one.

A true ratio at the limit fails only where both measurements err: at most 2.5 % of the time whatever they share, and
0.025 * 0.1 where their sessions are independent. A second interval of 95 % would add little to that, and lose one in
ten of the engines that are as much too slow as the first measurement can just tell.
"""


def timed_within(
    plan: LatencyPlan,
    measure_once: Callable[[LatencyPlan], LatencyResult],
    breaks: Callable[[LatencyResult], bool],
    measure_apart: Callable[[LatencyPlan], LatencyResult] | None = None,
) -> LatencyResult:
    """Measure, and once more where a limit is broken; the second result is the `repeat` of the first.

    Parameters
    ----------
    plan : its `max_s` bounds both measurements together; without a limit the first may use all of it.
    measure_once : measures in fresh sessions; opening them is not part of the budget.
    breaks : whether a limit is broken.
    measure_apart : measures in a fresh process, for the second time where the first is in doubt; ``None`` for none.
    """
    limited = plan.min_speedup is not None or bool(plan.max_latency_ms)
    first = measure_once(replace(plan, max_s=plan.max_s * (FIRST_SHARE if limited else 1.0)))
    if not breaks(first):
        return first
    left_s = max(plan.max_s - first.spent_s, 0.0)
    confidence = min(plan.confidence, CONFIRMING)
    again = replace(plan, max_s=left_s, seed=plan.seed + 1, confidence=confidence)
    # Processes differ by what sessions of one do not show: where memory lies, how threads are placed.
    doubted = measure_apart is not None and not breaks(_twice_as_wide(first))
    return replace(first, repeat=measure_apart(again) if measure_apart and doubted else measure_once(again))


def _twice_as_wide(latency: LatencyResult) -> LatencyResult:
    """Return a latency whose intervals reach twice as far, in logarithms: a FAIL that does not stand there is close."""
    value, span = latency.speedup, latency.speedup_ci
    bounds = tuple(
        (percentile, None if low is None or high is None else low * low / high, high)
        for percentile, low, high in latency.percentile_bounds_ms
    )
    wide = Interval(span.low * span.low / value, span.high * span.high / value)
    return replace(latency, speedup_ci=wide, percentile_bounds_ms=bounds)


def time_check(
    check: Check, plan: LatencyPlan, reference: Subject, candidate: Subject, tools: Tools, breaks: Breaks
) -> LatencyResult:
    """Time reference, null and candidate; time them again before a limit fails, in a fresh process where it is close.

    Parameters
    ----------
    check : its limits on latency, and its node id, which seeds the random order.
    plan : its `max_s` bounds all runs of both measurements; opening the sessions is not part of it.
    reference, candidate : the engines; the null is a second session of the reference.
    tools : the messages to the user.
    breaks : whether a latency breaks a limit of the check.
    """
    plan = plan_for(check, plan)
    with tools.locks.exclusive(reference.backend.device, candidate.backend.device):
        return timed_within(
            plan,
            lambda once: _time_once(once, reference, candidate, tools),
            lambda latency: breaks(check, latency),
            lambda once: _time_apart(once, reference, candidate, tools),
        )


def plan_for(check: Check, plan: LatencyPlan) -> LatencyPlan:
    """Return `plan` with the limits of a check to decide, and the random order that its node id seeds."""
    return replace(
        plan,
        min_speedup=check.limits.min_speedup,
        max_latency_ms=check.limits.max_latency_ms,
        seed=zlib.crc32(check.nodeid.encode()),
    )


def _time_once(plan: LatencyPlan, reference: Subject, candidate: Subject, tools: Tools) -> LatencyResult:
    named = f"{candidate.spec.id} of {candidate.spec.model.name}"
    with ExitStack() as stack:
        with tools.step(f"opening sessions to time {named}"):
            sessions = stack.enter_context(open_sessions(reference, candidate, plan.pages))
        with tools.step(f"timing {named}"):
            return sessions.measure(plan)


def _time_apart(plan: LatencyPlan, reference: Subject, candidate: Subject, tools: Tools) -> LatencyResult:
    """Time in a fresh process; in fresh sessions of this one, with a note, where no other can open the engines."""
    named = f"{candidate.spec.id} of {candidate.spec.model.name}"
    with tempfile.TemporaryDirectory(prefix="pytest-quant-") as folder:
        file = Path(folder) / "check"
        try:
            Launchable.of(reference, candidate, plan).save(file)
            with tools.step(f"timing {named} again in a fresh process"), Launch(file) as launch:
                found = launch.measure(plan)
        except LaunchError as error:
            found = _time_once(plan, reference, candidate, tools)
            return replace(found, notes=(*found.notes, f"measured again in the same process: {error.what}"))
    return replace(found, notes=(*found.notes, "measured in a process of its own"))
