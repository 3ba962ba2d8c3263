"""Launches in the history: those that a latency is judged against, and how far launches of equal engines differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from pytest_quant.history.rows import StoredCheck, group_items, launches_in
from pytest_quant.history.summaries import CheckSummary
from pytest_quant.history.trends import find_changes
from pytest_quant.result import NOTHING_KNOWN, Baseline, LaunchFigures, LaunchNoise
from pytest_quant.stats.launches import common_noise, days_of, logs_of, moderate_noise, noise_of, noise_of_steps

SPEEDUP, CANDIDATE, REFERENCE = FIGURES = ("speedup", "candidate_p50_ms", "reference_p50_ms")
"""The figures of a launch, by their fields in `LaunchFigures` and `CheckSummary`."""

LatencyNoise: TypeAlias = Mapping[str, LaunchNoise]
"""How launches differ in each of the `FIGURES`."""

NO_NOISE_KNOWN: LatencyNoise = dict.fromkeys(FIGURES, NOTHING_KNOWN)


def moderate(own: LatencyNoise, prior: LatencyNoise) -> LatencyNoise:
    """Return noise drawn to a `prior`, each figure by its degrees of freedom."""
    return {figure: moderate_noise(own[figure], prior[figure]) for figure in FIGURES}


def shared_noise(series: Collection[LatencyNoise]) -> LatencyNoise:
    """Return what the noise of several series on one machine has in common, see `common_noise`."""
    return {figure: common_noise([noise[figure] for noise in series]) for figure in FIGURES}


def noise_by_machine(points: Iterable[CheckSummary]) -> dict[str, dict[str, LatencyNoise]]:
    """Return the noise of each series, by identity of the machine and key of the series.

    Parameters
    ----------
    points : of all series, of the last commits of a branch, oldest first.
    """
    return {
        identity: {
            key: _noise_of_points(of_one) for key, of_one in group_items(here, lambda point: point.series).items()
        }
        for identity, here in group_items(points, lambda point: point.identity).items()
    }


def _noise_of_points(points: Sequence[CheckSummary]) -> LatencyNoise:
    days = days_of(point.started_at for point in points)
    commits = [list(map(_launch_of_point, group)) for group in group_items(points, lambda point: point.commit).values()]
    return {figure: noise_of_steps([logs_of(group, figure, days) for group in commits]) for figure in FIGURES}


def _launch_of_point(point: CheckSummary) -> LaunchFigures:
    return LaunchFigures(point.started_at, point.speedup, point.candidate_p50_ms, point.reference_p50_ms)


def include_launches(baseline: Baseline, checks: Sequence[StoredCheck], shared: LatencyNoise) -> Baseline:
    """Return a baseline with its launches, and the noise of these and of the launches in the history.

    Its launches are those that it has, which were accepted, else those of the history since the last change.

    Parameters
    ----------
    baseline : of the series.
    checks : records of the series on one machine, timed in one way, of the last commits of a branch, oldest first.
    shared : noise of all series there.
    """
    accepted = baseline.launches
    speedups, times = _levels(checks, SPEEDUP), _levels(checks, CANDIDATE)
    launches, p50_launches = (tuple(levels[-1]) if levels else () for levels in (speedups, times))
    if accepted:
        launches = p50_launches = accepted
        for levels in (speedups, times):
            stored = {launch.started_at for level in levels for launch in level}
            if stored.isdisjoint(launch.started_at for launch in accepted):
                levels.append(list(accepted))
    baseline = replace(baseline, launches=launches, p50_launches=p50_launches)
    speedup_noise = moderate_noise(_noise_of_levels(speedups, SPEEDUP), shared[SPEEDUP])
    p50_noise = moderate_noise(_noise_of_levels(times, CANDIDATE), shared[CANDIDATE])
    return replace(baseline, speedup_noise=speedup_noise, p50_noise=p50_noise)


def _noise_of_levels(levels: Sequence[Sequence[LaunchFigures]], figure: str) -> LaunchNoise:
    days = days_of(launch.started_at for level in levels for launch in level)
    return noise_of([logs_of(level, figure, days) for level in levels])


def _levels(checks: Sequence[StoredCheck], figure: str) -> list[list[LaunchFigures]]:
    """Return the launches between the changes of a figure, the last level last."""
    launches = [(check, launch) for check in checks for launch in launches_in(check)]
    firsts = {change.first_bad for change in find_changes(_point(*launch, figure) for launch in launches)}
    levels: list[list[LaunchFigures]] = [[]]
    for check, launch in launches:
        if check.run.commit in firsts:
            firsts.remove(check.run.commit)
            levels.append([])
        if getattr(launch, figure):
            levels[-1].append(launch)
    return [level for level in levels if level]


def _point(check: StoredCheck, launch: LaunchFigures, figure: str) -> CheckSummary:
    """Return what the search for changes looks at: a launch with one figure, which it then searches."""
    record, run = check.record, check.run
    point = CheckSummary(
        run.id, launch.started_at, run.commit, run.branch, run.dirty, record.series, "", "", "", record.status
    )
    return replace(point, **{figure: getattr(launch, figure)})
