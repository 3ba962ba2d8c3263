"""Changes whose new value somebody accepted, so that they are no regression."""

from __future__ import annotations

import math
from dataclasses import replace

from pytest_quant.history.baselines.file import BaselineEntry
from pytest_quant.history.compare.comparison import Outcome, Row
from pytest_quant.history.compare.pairing import Pair, measured
from pytest_quant.history.rows import way_of_timing

SAME = 1e-6
"""Relative difference between a value and the accepted one that is rounding."""

_LATENCY_PCT = 1.0
"""A latency within this of the accepted one is that one, or within its own interval where that is wider."""


def with_accepted(row: Row, pair: Pair, entry: BaselineEntry | None) -> Row:
    """Return the row of a regression as an accepted change, where the head is no worse than the value in `entry`.

    A test that began to fail is never accepted: no failed record becomes a baseline.

    Parameters
    ----------
    row : of the comparison.
    pair : launches of its series.
    entry : value accepted after the base; ``None`` without one.
    """
    if (
        entry is None
        or entry.removed
        or row.outcome is not Outcome.REGRESSION
        or not isinstance(row.head, (int, float))
    ):
        return row
    allowed = _accepted_value(row, pair, entry)
    if allowed is None or not _within(row, row.head, allowed):
        return row
    note = f"accepted with {entry.commit[:12]} on {entry.accepted_at:%Y-%m-%d}: {entry.reason}"
    return replace(row, outcome=Outcome.ACCEPTED, notes=(*row.notes, note))


def _accepted_value(row: Row, pair: Pair, entry: BaselineEntry) -> float | None:
    """Return the accepted value of the row's quantity, ``None`` where the entry has none that is comparable."""
    if row.quantity in ("speedup", "p50"):
        return _accepted_latency(row, pair, entry)
    if row.quantity in ("accuracy", "drop"):
        last = next(check.record for check in reversed(pair.head) if measured(check.record))
        if entry.data not in (None, last.digests.get("data")):
            return None
        return entry.candidate_score if row.quantity == "accuracy" else entry.drop
    return {"size": entry.size_mb, "coverage": entry.coverage_pct}.get(row.quantity)


def _accepted_latency(row: Row, pair: Pair, entry: BaselineEntry) -> float | None:
    machines = [
        (dict(check.run.environment.identity), way_of_timing(check.record.latency))
        for check in pair.head
        if check.record.latency is not None
    ]
    here = [figures for figures in entry.latency if (dict(figures.identity), figures.way) in machines]
    if len(here) != 1:
        return None
    return here[0].speedup if row.quantity == "speedup" else here[0].candidate_p50_ms


def _within(row: Row, head: float, allowed: float) -> bool:
    """Whether the head's value is no worse than the accepted one, by more than rounding, or noise for a latency."""
    share = SAME
    if row.quantity in ("speedup", "p50"):
        half = 0.0 if row.interval is None else (row.interval.high - row.interval.low) / 2.0
        share = max(_LATENCY_PCT, half) / 100.0
    if math.isclose(head, allowed, rel_tol=share, abs_tol=SAME):
        return True
    return head < allowed if row.better == "lower" else head > allowed
