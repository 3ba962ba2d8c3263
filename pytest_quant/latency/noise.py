"""Named signs of noise. A null that is off makes the numbers worthless; the others are told beside them."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence

from pytest_quant.result import Interval

NULL_TOLERANCE = 1.02
"""Interleaved in one process, two sessions of one model differ by 0.4 to 0.6 % (standard deviation) between
launches; beyond 2 % something else than the model is measured."""

_WIDE_IQR = 0.10
_TREND = 1.03


def null_reasons(null_ratio: Interval) -> tuple[str, ...]:
    """Say that two sessions of the reference differ by more than the tolerance, if they surely do."""
    if null_ratio.low > NULL_TOLERANCE or null_ratio.high < 1.0 / NULL_TOLERANCE:
        span = f"[{null_ratio.low:.3f}, {null_ratio.high:.3f}]"
        return (f"the null is off: a second session of the reference took {span} times as long as the first",)
    return ()


def noise_notes(candidate_ns: Sequence[float], reference_ns: Sequence[float]) -> tuple[str, ...]:
    """Name what the block medians and the machine show: a wide spread, a trend, more load than processors."""
    notes = []
    for name, medians in (("candidate", candidate_ns), ("reference", reference_ns)):
        first, _, third = statistics.quantiles(medians, n=4)
        spread = (third - first) / statistics.median(medians)
        if spread > _WIDE_IQR:
            notes.append(f"wide spread: half of the {name}'s rounds lie {100 * spread:.0f} % apart")
        part = max(1, len(medians) // 3)
        trend = statistics.median(medians[-part:]) / statistics.median(medians[:part])
        if not 1.0 / _TREND < trend < _TREND:
            notes.append(f"trend: the {name} took {trend:.2f} times as long at the end as at the start")
    load, processors = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load > processors + 1:
        notes.append(f"busy machine: a load of {load:.1f} on {processors} processors")
    return tuple(notes)
