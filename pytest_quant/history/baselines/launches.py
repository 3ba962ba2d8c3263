"""The launches that a latency is judged against: those of the last commits since its figures last changed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_quant.errors import UsageError
from pytest_quant.history.noise import LatencyNoise
from pytest_quant.history.rows import StoredCheck
from pytest_quant.history.summaries import CheckSummary
from pytest_quant.history.trends import find_changes
from pytest_quant.result import Baseline, LaunchFigures, LaunchNoise
from pytest_quant.stats.draws import draw_of
from pytest_quant.stats.launches import Launch, days_of, moderated_noise, noise_of

if TYPE_CHECKING:
    from pytest_quant.environment import Committed, Repository
    from pytest_quant.history.store import Store

MOST_COMMITS = 30
"""Last commits with records whose launches count."""


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


def with_recorded_launches(baseline: Baseline, checks: Sequence[StoredCheck], shared: LatencyNoise) -> Baseline:
    """Return a baseline with the launches of the history since the last change, their medians, and the noise of all.

    Parameters
    ----------
    baseline : of the series.
    checks : records of the series on one machine, timed in one way, of the last commits of a branch, oldest first.
    shared : noise of all series there.
    """
    speedups, times = _levels(checks, "speedup"), _levels(checks, "candidate_p50_ms")
    launches, p50_launches = (tuple(levels[-1]) if levels else () for levels in (speedups, times))
    return replace(
        baseline,
        speedup=median_of(launch.speedup for launch in launches),
        candidate_p50_ms=median_of(launch.candidate_p50_ms for launch in p50_launches),
        same_identity=bool(launches),
        launches=launches,
        p50_launches=p50_launches,
        speedup_noise=_noise(speedups, "speedup", shared.speedup),
        p50_noise=_noise(times, "candidate_p50_ms", shared.candidate),
    )


def with_accepted_launches(
    baseline: Baseline, launches: Sequence[LaunchFigures], checks: Sequence[StoredCheck], shared: LatencyNoise
) -> Baseline:
    """Return a baseline with the `launches` that were accepted, and the noise of these and those of the history.

    Parameters
    ----------
    baseline, checks, shared : as in `with_recorded_launches`.
    launches : of the accepted entry, all on one machine.
    """
    noises = []
    for figure, prior in (("speedup", shared.speedup), ("candidate_p50_ms", shared.candidate)):
        levels = _levels(checks, figure)
        times = {launch.started_at for level in levels for launch in level}
        if not any(launch.started_at in times for launch in launches):
            levels.append(list(launches))
        noises.append(_noise(levels, figure, prior))
    both = tuple(launches)
    return replace(baseline, launches=both, p50_launches=both, speedup_noise=noises[0], p50_noise=noises[1])


def points_before(recorded: Store, git: Repository, commit: str | None) -> list[CheckSummary]:
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
    return recorded.points_of([run_id for each in recorded_of(recorded, line) for run_id in each.ids])


def recorded_of(recorded: Store, line: Sequence[Committed]) -> tuple[Committed, ...]:
    """Return the first commits of a line that have records, at most those whose launches count."""
    ids = recorded.commits([run_id for each in line for run_id in each.ids])
    return tuple(each for each in line if ids.intersection(each.ids))[:MOST_COMMITS]


def median_of(values: Iterable[float | None]) -> float | None:
    """Return the median of the values that are there; ``None`` without any."""
    measured = [value for value in values if value is not None]
    return statistics.median(measured) if measured else None


def _noise(levels: Sequence[Sequence[LaunchFigures]], figure: str, shared: LaunchNoise) -> LaunchNoise:
    days = days_of(launch.started_at for level in levels for launch in level)
    logs = [
        [
            Launch(math.log(value), days[launch.started_at])
            for launch in level
            for value in (getattr(launch, figure),)
            if value
        ]
        for level in levels
    ]
    return moderated_noise(noise_of(logs), shared)


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


def _points(checks: Iterable[StoredCheck], figure: str) -> Iterable[CheckSummary]:
    """Yield what the search for changes looks at: each launch with one figure, which it then searches."""
    for check in checks:
        record, run = check.record, check.run
        for launch in launches_in(check):
            point = CheckSummary(
                run.id, launch.started_at, run.commit, run.branch, run.dirty, record.series, "", "", "", record.status
            )
            yield replace(point, **{figure: getattr(launch, figure)})
