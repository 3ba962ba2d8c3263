"""One number of each launch, never the rounds of one, which share the luck of their process."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pytest_quant.history.compare.moved import Pace
from pytest_quant.history.rows import StoredCheck
from pytest_quant.record import LatencyFigures
from pytest_quant.stats.welch import MeanDifference, welch

FEWEST_LAUNCHES = 5
"""On each side; with fewer, a latency is advisory."""

MIN_CHANGE_PCT = 1.0
"""A change of a latency that is smaller is none, however well it is proven."""


@dataclass(frozen=True, slots=True)
class Launches:
    """Natural logarithms, one for each launch; `spans` are the intervals of the speedup within each.

    `speedup` is empty where a launch has no reference, as in records of other tools.
    """

    speedup: tuple[float, ...]
    candidate: tuple[float, ...]
    reference: tuple[float, ...]
    spans: tuple[tuple[float, float], ...]
    doubted: int

    @property
    def n(self) -> int:
        """Launches that count."""
        return len(self.candidate)


def launches_of(checks: Iterable[StoredCheck]) -> Launches:
    """Read the latency of each launch; one that names a reason not to trust it is only counted as doubted."""
    found = [check.record.latency for check in checks if check.record.latency is not None]
    sound = [latency for latency in found if not latency.reasons and (latency.candidate_p50_ms or 0.0) > 0.0]
    ratios = list(_logs(latency.speedup for latency in sound))
    return Launches(
        speedup=tuple(ratios) if len(ratios) == len(sound) else (),
        candidate=tuple(_logs(latency.candidate_p50_ms for latency in sound)),
        reference=tuple(_logs(latency.reference_p50_ms for latency in sound)),
        spans=tuple(_spans(sound)),
        doubted=len(found) - len(sound),
    )


def percent(log_change: float) -> float:
    """Return a change of a logarithm as percent of what it was."""
    return 100.0 * math.expm1(log_change)


def as_log(percentage: float) -> float:
    """Return the change of a logarithm that is `percentage`."""
    return math.log1p(percentage / 100.0)


def difference(base: tuple[float, ...], head: tuple[float, ...]) -> MeanDifference | None:
    """Compare two sides by Welch's test; ``None`` for fewer than two launches on one."""
    return welch(base, head) if min(len(base), len(head)) >= 2 else None


def mean_change(base: tuple[float, ...], head: tuple[float, ...]) -> float | None:
    """Return mean(head) - mean(base); ``None`` where one has no launch."""
    return math.fsum(head) / len(head) - math.fsum(base) / len(base) if base and head else None


def pace(base: tuple[float, ...], head: tuple[float, ...]) -> Pace:
    """Tell whether logarithms of latencies moved: by the minimum at least, and with an interval that leaves out 0."""
    found = difference(base, head)
    if found is None or found.low <= 0.0 <= found.high or abs(found.value) < as_log(MIN_CHANGE_PCT):
        return Pace.SAME
    return Pace.SLOWER if found.value > 0.0 else Pace.FASTER


def _logs(values: Iterable[float | None]) -> Iterator[float]:
    return (math.log(value) for value in values if value is not None and value > 0.0)


def _spans(sound: Iterable[LatencyFigures]) -> Iterator[tuple[float, float]]:
    for latency in sound:
        if latency.speedup_ci is not None and latency.speedup_ci.low > 0.0:
            yield math.log(latency.speedup_ci.low), math.log(latency.speedup_ci.high)
