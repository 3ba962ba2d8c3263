"""A change of level in a series, as it is told."""

from __future__ import annotations

from dataclasses import dataclass

CONFIDENT_POINTS = 5
"""With fewer commits after it a change is only probable."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of level between two commits with records.

    Attributes
    ----------
    quantity : ``score`` of the candidate, ``speedup`` over the reference, or ``latency`` where there is no speedup.
    last_good, first_bad : the last commit of the old level and the first of the new one, also where the change is an
        improvement; its cause is a commit after the first, up to and including the second.
    before, after : medians of the levels, in `unit`.
    size : percent of `before` for speedup and latency, else the difference in `unit`.
    improved : the change is for the better; ``None`` when the direction of the metric is not known.
    confidence : 1 - p when it was told, p adjusted for the looks, and the series looked at together; 1 for a score that
        repeats exactly before and after.
    probable : fewer than five commits confirm it yet.
    commits_after : number of commits with records from `first_bad` on.
    machine : identity of the machine for speed, instruction set for a score.
    """

    series: str
    quantity: str
    unit: str
    last_good: str
    first_bad: str
    first_bad_at: str
    before: float
    after: float
    size: float
    improved: bool | None
    confidence: float
    probable: bool
    commits_after: int
    machine: str
