"""Named signs of noise in the times themselves.

A reason makes the numbers worthless: the null is off, or there are too few rounds for any interval. A note is told
beside numbers that hold, because interleaving cancels what all engines share.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from pytest_quant.result import Interval
from pytest_quant.spec import LatencyPlan
from pytest_quant.stats.ratio import fewest_rounds

NULL_TOLERANCE = 1.02
"""Interleaved in one process, two sessions of one model differ by 0.4 to 0.6 % (standard deviation) between
launches; beyond 2 % something else than the model is measured."""

_FEWEST_NOTED = 2
_WIDE_IQR = 0.10
_TREND = 1.03
_CORRELATED = 0.5


def null_reasons(null_ratio: Interval) -> tuple[str, ...]:
    """Say that two sessions of the reference differ by more than the tolerance, if they surely do."""
    if null_ratio.low > NULL_TOLERANCE or null_ratio.high < 1.0 / NULL_TOLERANCE:
        span = f"[{null_ratio.low:.3f}, {null_ratio.high:.3f}]"
        return (f"the null is off: a second session of the reference took {span} times as long as the first",)
    return ()


def budget_reasons(rounds: int, plan: LatencyPlan) -> tuple[str, ...]:
    """Say that the time allowed was over before there were enough rounds for an interval."""
    fewest = fewest_rounds(plan.confidence)
    if rounds < fewest:
        needed = f"{100 * plan.confidence:g} % confidence needs {fewest}"
        return (f"too few rounds within {plan.max_s:.3g} s: {rounds}, and {needed}",)
    return ()


def noise_notes(candidate_ns: Sequence[float], reference_ns: Sequence[float]) -> tuple[str, ...]:
    """Name what the block medians, one per round, show: a wide spread, a trend, rounds that resemble the last."""
    notes: list[str] = []
    if len(candidate_ns) < _FEWEST_NOTED:
        return ()
    for name, medians in (("candidate", candidate_ns), ("reference", reference_ns)):
        first, _, third = statistics.quantiles(medians, n=4)
        spread = (third - first) / statistics.median(medians)
        if spread > _WIDE_IQR:
            notes.append(f"wide spread: half of the {name}'s rounds lie {100 * spread:.0f} % apart")
        part = max(1, len(medians) // 3)
        trend = statistics.median(medians[-part:]) / statistics.median(medians[:part])
        if not 1.0 / _TREND < trend < _TREND:
            notes.append(f"trend: the {name} took {trend:.2f} times as long at the end as at the start")
        resemblance = autocorrelation(medians)
        # Of independent rounds 95 % stay within 2 / sqrt(n), whatever n (Box and Jenkins 1976, section 2.1.6).
        if resemblance > max(_CORRELATED, 2.0 / math.sqrt(len(medians))):
            notes.append(f"slow waves: a round of the {name} resembles the one before it (r = {resemblance:.2f})")
    return tuple(notes)


def autocorrelation(values: Sequence[float]) -> float:
    """Correlation of each value with the one before it, -1..1; 0 when all are equal."""
    mean = statistics.fmean(values)
    off = [value - mean for value in values]
    power = math.fsum(one * one for one in off)
    return math.fsum(one * two for one, two in pairwise(off)) / power if power else 0.0
