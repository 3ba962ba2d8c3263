"""What all series on one machine share: how much launches and days differ there, and how far the machine itself moved.

A machine that is 5 % faster on the day of the head makes every engine 5 % faster. One reference cannot tell that from
a change of its own, but the median over all series can, which a few changed engines do not move.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_quant.history.baselines.launches import (
    CANDIDATE,
    FIGURES,
    NO_NOISE_KNOWN,
    REFERENCE,
    LatencyNoise,
    launches_in,
    logs_of,
    moderated,
    noise_by_machine,
    shared_noise,
)
from pytest_quant.history.compare.pairing import Pair
from pytest_quant.history.rows import StoredCheck, grouped, identity_of
from pytest_quant.history.summaries import CheckSummary
from pytest_quant.stats.launches import Launch, days_of, noise_of

FEWEST_SERIES = 3
"""With fewer series on a machine its own shift cannot be told from a change of one of them."""


@dataclass(frozen=True, slots=True)
class Launches:
    """Natural logarithms of the latencies of base or head, one for each launch.

    Attributes
    ----------
    figures : each of the `FIGURES`.
    spans : interval of the speedup within each record, where it has one.
    doubted : number of records that were left out because their figures are noise.
    """

    figures: Mapping[str, tuple[Launch, ...]]
    spans: tuple[tuple[float, float], ...]
    doubted: int

    @property
    def n(self) -> int:
        """Number of launches that count."""
        return len(self.figures[CANDIDATE])


@dataclass(frozen=True, slots=True)
class Machine:
    """What the series on one machine share.

    Attributes
    ----------
    common : noise of all series, to moderate that of each.
    earlier : noise of each series in the commits before the base.
    shift : by how much its engines became slower from base to head, natural logarithm; ``None`` for too few series.
    """

    common: LatencyNoise = field(default_factory=lambda: NO_NOISE_KNOWN)
    earlier: Mapping[str, LatencyNoise] = field(default_factory=dict)
    shift: float | None = None

    def noise_of(self, series: str, base: Launches, head: Launches) -> LatencyNoise:
        """Return the noise of one series: of base and head, of earlier commits, and of what all series share."""
        earlier = self.earlier.get(series, NO_NOISE_KNOWN)
        return moderated(moderated(_own_noise(base, head), earlier), self.common)


def by_identity(launches: Iterable[StoredCheck]) -> dict[str, list[StoredCheck]]:
    """Return the launches by identity of their machine, in the given order."""
    return grouped(launches, lambda launch: identity_of(launch.run, launch.record))


def launches_of(base: Sequence[StoredCheck], head: Sequence[StoredCheck]) -> tuple[Launches, Launches]:
    """Return the latencies of launches of base and head, with days that are the same for both.

    A record with a reason not to trust it is only counted as doubted.
    """
    days = days_of(
        time
        for check in (*base, *head)
        for time in (check.run.started_at, *(launch.started_at for launch in launches_in(check)))
    )
    return _read(base, days), _read(head, days)


def machines_of(pairs: Iterable[Pair], earlier: Iterable[CheckSummary]) -> dict[str, Machine]:
    """Return the machines that base and head have in common, by identity.

    Parameters
    ----------
    pairs : of all series.
    earlier : summaries of all series in the commits before the base, oldest first.
    """
    sides: dict[str, dict[str, tuple[Launches, Launches]]] = {}
    runs: set[str] = set()
    for pair in pairs:
        bases, heads = by_identity(pair.base), by_identity(pair.head)
        runs |= {check.run.id for check in (*pair.base, *pair.head)}
        for identity in bases.keys() & heads.keys():
            sides.setdefault(identity, {})[pair.series] = launches_of(bases[identity], heads[identity])
    before = noise_by_machine(point for point in earlier if point.run_id not in runs)
    return {identity: _machine(series, before.get(identity, {})) for identity, series in sides.items()}


def mean_change(base: Sequence[Launch], head: Sequence[Launch]) -> float | None:
    """Return mean(head) - mean(base), ``None`` where one has no launch."""
    if not base or not head:
        return None
    before, after = (math.fsum(launch.value for launch in side) / len(side) for side in (base, head))
    return after - before


def _machine(series: Mapping[str, tuple[Launches, Launches]], earlier: Mapping[str, LatencyNoise]) -> Machine:
    own = {key: _own_noise(*sides) for key, sides in series.items()}
    noises = [
        moderated(own.get(key, NO_NOISE_KNOWN), earlier.get(key, NO_NOISE_KNOWN))
        for key in dict.fromkeys((*own, *earlier))
    ]
    changes = [
        change
        for base, head in series.values()
        for figure in (CANDIDATE, REFERENCE)
        if (change := mean_change(base.figures[figure], head.figures[figure])) is not None
    ]
    timed = sum(bool(base.n and head.n) for base, head in series.values())
    return Machine(shared_noise(noises), earlier, statistics.median(changes) if timed >= FEWEST_SERIES else None)


def _own_noise(base: Launches, head: Launches) -> LatencyNoise:
    return {figure: noise_of([base.figures[figure], head.figures[figure]]) for figure in FIGURES}


def _read(checks: Sequence[StoredCheck], days: Mapping[str, int]) -> Launches:
    latencies = [check.record.latency for check in checks if check.record.latency is not None]
    sound = [latency for latency in latencies if not latency.reasons and (latency.candidate_p50_ms or 0.0) > 0.0]
    launches = [launch for check in checks for launch in launches_in(check) if (launch.candidate_p50_ms or 0.0) > 0.0]
    intervals = [latency.speedup_ci for latency in sound if latency.speedup_ci and latency.speedup_ci.low > 0.0]
    return Launches(
        {figure: tuple(logs_of(launches, figure, days)) for figure in FIGURES},
        tuple((math.log(interval.low), math.log(interval.high)) for interval in intervals),
        len(latencies) - len(sound),
    )
