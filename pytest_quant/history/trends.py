"""The commits of a branch at which the score or the speed of a series changed."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_quant.history.summaries import CONFIDENT_POINTS, Change, CheckSummary
from pytest_quant.stats.changes import ChangePoint, change_points

MOST_COMMITS = 400
"""Number of newest commits of a series that are searched; so many looks share the probability of a false alarm."""

LEAST_SPEED_PCT = 2.0
"""Smaller changes of speed are left out: a machine varies that much from day to day."""

_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class _Levels:
    """Of each commit, in the order of their first runs: the mean over all its runs, on the scale that is searched."""

    commits: Sequence[str]
    started_at: Sequence[str]
    values: Sequence[float]


def find_changes(points: Iterable[CheckSummary], *, confidence: float = 0.95, family: int = 1) -> list[Change]:
    """Return the changes of one series on one branch, the latest first.

    The history is gone through as it grew, commit by commit: what it tells after a commit was told before it or rests
    on that commit, so that looking every day finds nothing else than looking once. Levels are of all that is known.

    Points of each version of data and metric are searched separately, scores for each instruction set, speeds for each
    identity of the machine. All runs of a commit are averaged; runs with uncommitted changes, and checks without the
    figure, are left out. Where a score usually repeats exactly from commit to commit every step counts as a change;
    other figures are searched by `change_points`.

    Parameters
    ----------
    points : of one series and branch, oldest first.
    confidence : 1 - the probability of one or more false alarms in figures that never change, over all looks at all
        series of the family.
    family : number of series that are looked at together, over which that probability is divided.
    """
    clean = [point for point in points if point.commit is not None and not point.dirty]
    sequences = [
        *_by_group(clean, lambda point: (point.version, point.isa), _scores),
        *_by_group(clean, lambda point: (point.version, point.identity), _speeds),
    ]
    # A step of a score that repeats exactly is no test, and takes no part.
    tests = family * max(1, sum(not sequence.exact for sequence in sequences))
    significance = (1.0 - confidence) / tests
    changes = [change for sequence in sequences for change in _changes(sequence, significance, tests)]
    return sorted(changes, key=lambda change: change.first_bad_at, reverse=True)


@dataclass(frozen=True, slots=True)
class _Sequence:
    """What is searched by itself: one quantity on one machine.

    Attributes
    ----------
    more_is_better : ``None`` when the direction of the metric is not known.
    exact : each value usually repeats exactly from commit to commit.
    """

    series: str
    quantity: str
    unit: str
    machine: str
    levels: _Levels
    more_is_better: bool | None
    exact: bool = False


def _by_group(
    points: Sequence[CheckSummary],
    group_of: Callable[[CheckSummary], tuple[str, str]],
    sequence_of: Callable[[Sequence[CheckSummary], str], _Sequence],
) -> Iterator[_Sequence]:
    groups: dict[tuple[str, str], list[CheckSummary]] = {}
    for point in points:
        groups.setdefault(group_of(point), []).append(point)
    sequences = (sequence_of(group, machine) for (_, machine), group in groups.items())
    return (one for one in sequences if one.levels.values)


def _scores(points: Sequence[CheckSummary], machine: str) -> _Sequence:
    levels = _levels(points, lambda point: point.candidate)
    # A check without a score, as one that could not run, knows neither unit nor direction.
    last = next((point for point in reversed(points) if point.candidate is not None), points[-1])
    more_is_better = None if last.better is None else last.better == "higher"
    return _Sequence(last.series, "score", last.unit or "", machine, levels, more_is_better, _repeats(levels.values))


def _speeds(points: Sequence[CheckSummary], machine: str) -> _Sequence:
    series = points[-1].series
    levels = _levels(points, lambda point: _log(point.speedup))
    if levels.values:
        return _Sequence(series, "speedup", "x", machine, levels, more_is_better=True)
    levels = _levels(points, lambda point: _log(point.candidate_p50_ms))
    return _Sequence(series, "latency", "ms", machine, levels, more_is_better=False)


def _changes(sequence: _Sequence, significance: float, tests: int) -> Iterator[Change]:
    """Yield the changes of a sequence, each with the p of the whole family of `tests` sequences."""
    values = sequence.levels.values
    points = _steps(values) if sequence.exact else change_points(values, significance=significance)
    for one in points:
        point = replace(one, p_value=min(tests * one.p_value, 1.0))
        size = point.after - point.before
        if sequence.quantity != "score":
            size = 100.0 * math.expm1(size)
            if abs(size) < LEAST_SPEED_PCT:
                continue
            point = replace(point, before=math.exp(point.before), after=math.exp(point.after))
        yield _change(sequence, point, size)


def _change(sequence: _Sequence, point: ChangePoint, size: float) -> Change:
    levels = sequence.levels
    after = len(levels.values) - point.index
    return Change(
        series=sequence.series,
        quantity=sequence.quantity,
        unit=sequence.unit,
        last_good=levels.commits[point.index - 1],
        first_bad=levels.commits[point.index],
        first_bad_at=levels.started_at[point.index],
        before=point.before,
        after=point.after,
        size=size,
        improved=None if sequence.more_is_better is None else (size > 0.0) == sequence.more_is_better,
        confidence=1.0 - point.p_value,
        probable=after < CONFIDENT_POINTS,
        commits_after=after,
        machine=sequence.machine,
    )


def _levels(points: Sequence[CheckSummary], value_of: Callable[[CheckSummary], float | None]) -> _Levels:
    """Return the average over the runs of each commit, in the order of the first run of each."""
    values: dict[str, list[float]] = {}
    started: dict[str, str] = {}
    for point in points:
        value = value_of(point)
        if value is not None and point.commit is not None:
            values.setdefault(point.commit, []).append(value)
            started.setdefault(point.commit, point.started_at)
    latest = list(values)[-MOST_COMMITS:]
    means = [statistics.fmean(values[commit]) for commit in latest]
    return _Levels(latest, [started[commit] for commit in latest], means)


def _log(value: float | None) -> float | None:
    return math.log(value) if value is not None and value > 0.0 else None


def _repeats(values: Sequence[float]) -> bool:
    """Whether most commits have exactly the value of the one before, as deterministic engines do."""
    same = sum(_is_same(one, other) for one, other in itertools.pairwise(values))
    return 2 * same >= len(values) - 1


def _steps(values: Sequence[float]) -> tuple[ChangePoint, ...]:
    """Return every change of a value that repeats exactly."""
    pairs = enumerate(itertools.pairwise(values), 1)
    return tuple(ChangePoint(at, 0.0, one, other) for at, (one, other) in pairs if not _is_same(one, other))


def _is_same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_SAME, abs_tol=_SAME)
