"""The launches that a latency is judged against: those of the last commits since its figures last changed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_quant.errors import UsageError
from pytest_quant.history.points import Point
from pytest_quant.history.rows import StoredCheck
from pytest_quant.history.trends import find_changes
from pytest_quant.result import NOTHING_KNOWN, LaunchFigures, LaunchNoise
from pytest_quant.stats.draws import draw_of
from pytest_quant.stats.launches import (
    Launch,
    common_noise,
    days_of,
    moderated_noise,
    noise_of,
    noise_of_steps,
)

if TYPE_CHECKING:
    from pytest_quant.environment import Repository
    from pytest_quant.history.store import Recorded

MOST_COMMITS = 30
"""Last commits with records whose launches count."""


@dataclass(frozen=True, slots=True)
class LaunchBase:
    """The launches of one series on one machine as a `Baseline` has them."""

    launches: tuple[LaunchFigures, ...] = ()
    p50_launches: tuple[LaunchFigures, ...] = ()
    speedup_noise: LaunchNoise = NOTHING_KNOWN
    p50_noise: LaunchNoise = NOTHING_KNOWN


@dataclass(frozen=True, slots=True)
class CommonNoise:
    """What the launches of all series on one machine have in common."""

    speedup: LaunchNoise = NOTHING_KNOWN
    p50: LaunchNoise = NOTHING_KNOWN


def launches_in(check: StoredCheck) -> tuple[LaunchFigures, ...]:
    """Return the launches that a record holds, none where its numbers are not to be trusted."""
    latency = check.record.latency
    if latency is None or latency.reasons:
        return ()
    rounds = latency.round_p50_ms
    pairs = zip(rounds.get("reference", ()), rounds.get("candidate", ()), strict=False)
    logs = [math.log(reference / candidate) for reference, candidate in pairs if min(reference, candidate) > 0.0]
    first = LaunchFigures(
        check.run.started_at,
        latency.speedup,
        latency.candidate_p50_ms,
        latency.reference_p50_ms,
        draw_of(logs).error if len(logs) > 1 else None,
    )
    return (first, *latency.launches)


def launch_base(checks: Sequence[StoredCheck], common: CommonNoise) -> LaunchBase:
    """Return the launches since the last change, and the noise of all.

    Parameters
    ----------
    checks : records of one series on one machine, timed in one way, of the last commits of a branch, oldest first.
    common : what the launches of all series there have in common.
    """
    launches, speedup_noise = _since_change(checks, "speedup", common.speedup)
    p50_launches, p50_noise = _since_change(checks, "candidate_p50_ms", common.p50)
    return LaunchBase(launches, p50_launches, speedup_noise, p50_noise)


def noise_beside(
    launches: Sequence[LaunchFigures], checks: Sequence[StoredCheck], common: CommonNoise
) -> tuple[LaunchNoise, LaunchNoise]:
    """Return the noise of the speedup and of the candidate's time from accepted launches and those of the history.

    Parameters
    ----------
    launches : that were accepted.
    checks, common : as in `launch_base`.
    """
    speedup, p50 = (
        moderated_noise(
            noise_of([*_logs(levels, figure), *(() if _known(launches, levels) else _logs([launches], figure))]), prior
        )
        for figure, prior in (("speedup", common.speedup), ("candidate_p50_ms", common.p50))
        for levels in (_levels(checks, figure),)
    )
    return speedup, p50


def common_noise_of(points: Iterable[Point]) -> Mapping[str, CommonNoise]:
    """Return what series have in common, by identity of the machine.

    Parameters
    ----------
    points : of all series, of the last commits of a branch, oldest first.
    """
    machines: dict[str, dict[str, list[Point]]] = {}
    for point in points:
        machines.setdefault(point.identity, {}).setdefault(point.series, []).append(point)
    return {
        machine: CommonNoise(
            common_noise([_noise_of_points(one, "speedup") for one in series.values()]),
            common_noise([_noise_of_points(one, "candidate_p50_ms") for one in series.values()]),
        )
        for machine, series in machines.items()
    }


def points_before(recorded: Recorded, git: Repository, commit: str | None) -> list[Point]:
    """Return the summaries of all series in the commits before one, oldest first, which tell how launches differ.

    Parameters
    ----------
    recorded : the history.
    git : the repository.
    commit : of which the first parents are asked; ``None`` has none.

    Raises
    ------
    HistoryError : the history cannot be read.
    """
    if commit is None:
        return []
    try:
        line = git.first_parents(commit)[1:]
    except UsageError:
        # A shallow clone lacks the commit: with less known a difference is harder to prove, and none is made up.
        return []
    known = recorded.commits([one for each in line for one in each.ids])
    reach = [each for each in line if known.intersection(each.ids)][:MOST_COMMITS]
    return recorded.points_of([one for each in reach for one in each.ids])


def _noise_of_points(points: Sequence[Point], figure: str) -> LaunchNoise:
    days = days_of(point.started_at for point in points)
    commits: dict[Hashable, list[Launch]] = {}
    for point in points:
        value = getattr(point, figure)
        if value:
            commits.setdefault(point.commit, []).append(Launch(math.log(value), days[point.started_at]))
    return noise_of_steps(list(commits.values()))


def _since_change(
    checks: Sequence[StoredCheck], figure: str, common: LaunchNoise
) -> tuple[tuple[LaunchFigures, ...], LaunchNoise]:
    levels = _levels(checks, figure)
    return tuple(levels[-1]) if levels else (), moderated_noise(noise_of(_logs(levels, figure)), common)


def _levels(checks: Sequence[StoredCheck], figure: str) -> list[list[LaunchFigures]]:
    """Return the launches between the changes of a figure, the last level last."""
    firsts = {change.first_bad for change in find_changes(_points(checks, figure))}
    levels: list[list[LaunchFigures]] = [[]]
    started: set[str] = set()
    for check in checks:
        commit = check.run.commit or ""
        if commit in firsts and commit not in started:
            levels.append([])
        started.add(commit)
        levels[-1] += [launch for launch in launches_in(check) if getattr(launch, figure)]
    return [level for level in levels if level]


def _points(checks: Iterable[StoredCheck], figure: str) -> Iterable[Point]:
    """Yield what the search for changes looks at: each launch with one figure, which it then searches."""
    for check in checks:
        record, run = check.record, check.run
        for launch in launches_in(check):
            point = Point(
                run.id, launch.started_at, run.commit, run.branch, run.dirty, record.series, "", "", "", record.status
            )
            yield replace(point, **{figure: getattr(launch, figure)})


def _logs(levels: Iterable[Sequence[LaunchFigures]], figure: str) -> list[list[Launch]]:
    kept = [list(level) for level in levels]
    days = days_of(launch.started_at for level in kept for launch in level)
    return [
        [
            Launch(math.log(value), days[launch.started_at])
            for launch in level
            for value in (getattr(launch, figure),)
            if value
        ]
        for level in kept
    ]


def _known(launches: Sequence[LaunchFigures], levels: Iterable[Sequence[LaunchFigures]]) -> bool:
    """Whether the history has the accepted launches too, which must not count twice."""
    times = {launch.started_at for level in levels for launch in level}
    return any(launch.started_at in times for launch in launches)
