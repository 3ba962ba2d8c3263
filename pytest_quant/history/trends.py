"""The commits of a branch at which the score or the speed of a series changed."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pytest_quant.history.change import CONFIDENT_POINTS, Change
from pytest_quant.history.figures import Floats, SeriesFigures, Texts
from pytest_quant.history.points import Point
from pytest_quant.stats.changes import ChangePoint, change_points

MOST_COMMITS = 400
"""Number of newest commits of a series that are searched; so many looks share the probability of a false alarm."""

LEAST_SPEED_PCT = 2.0
"""Smaller changes of speed are left out: a machine varies that much from day to day."""

_SAME = 1e-9

_Rows = NDArray[np.intp]
"""Places of checks among those of a series."""


@dataclass(frozen=True, slots=True)
class _Levels:
    """Of each commit, in the order of their first runs: the mean over all its runs, on the scale that is searched."""

    commits: Sequence[str]
    started_at: Sequence[str]
    values: Sequence[float]


def find_changes(points: Iterable[Point], *, confidence: float = 0.95, family: int = 1) -> list[Change]:
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
    return _found(sequences, confidence, family)


def find_changes_in(figures: SeriesFigures, *, confidence: float = 0.95, family: int = 1) -> list[Change]:
    """Return what `find_changes` finds in the same checks of one branch, without an object for each of them.

    Parameters
    ----------
    figures : of one series and branch.
    confidence, family : see `find_changes`.
    """
    with_commit = np.array([commit is not None for commit in figures.commit.known], np.bool_)
    clean = np.flatnonzero(with_commit[figures.commit.codes] & ~figures.dirty)
    sequences: list[_Sequence] = []
    for rows, version, machine in _groups(clean, figures.version, figures.isa):
        levels = _levels_in(figures, rows, figures.candidate)
        sequences.append(_of_scores(figures.key, machine, levels, *figures.scales.get(version, (None, None))))
    for rows, _, machine in _groups(clean, figures.version, figures.identity):
        levels = _levels_in(figures, rows, figures.speedup, in_logs=True)
        if levels.values:
            sequences.append(_of_speedups(figures.key, machine, levels))
        else:
            levels = _levels_in(figures, rows, figures.candidate_p50_ms, in_logs=True)
            sequences.append(_of_latencies(figures.key, machine, levels))
    return _found([one for one in sequences if one.levels.values], confidence, family)


def _found(sequences: Sequence[_Sequence], confidence: float, family: int) -> list[Change]:
    # A step of a score that repeats exactly is no test, and takes no part.
    tests = family * max(1, sum(not one.exact for one in sequences))
    changes = [change for one in sequences for change in _changes(one, (1.0 - confidence) / tests, tests)]
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
    points: Sequence[Point],
    group_of: Callable[[Point], tuple[str, str]],
    sequence_of: Callable[[Sequence[Point], str], _Sequence],
) -> Iterator[_Sequence]:
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        groups.setdefault(group_of(point), []).append(point)
    found = (sequence_of(group, machine) for (_, machine), group in groups.items())
    return (one for one in found if one.levels.values)


def _scores(points: Sequence[Point], machine: str) -> _Sequence:
    last = points[-1]
    return _of_scores(last.series, machine, _levels(points, lambda point: point.candidate), last.unit, last.better)


def _speeds(points: Sequence[Point], machine: str) -> _Sequence:
    series = points[-1].series
    levels = _levels(points, lambda point: _log(point.speedup))
    if levels.values:
        return _of_speedups(series, machine, levels)
    return _of_latencies(series, machine, _levels(points, lambda point: _log(point.candidate_p50_ms)))


def _of_scores(series: str, machine: str, levels: _Levels, unit: str | None, better: str | None) -> _Sequence:
    more_is_better = None if better is None else better == "higher"
    return _Sequence(series, "score", unit or "", machine, levels, more_is_better, _repeats(levels.values))


def _of_speedups(series: str, machine: str, levels: _Levels) -> _Sequence:
    return _Sequence(series, "speedup", "x", machine, levels, more_is_better=True)


def _of_latencies(series: str, machine: str, levels: _Levels) -> _Sequence:
    return _Sequence(series, "latency", "ms", machine, levels, more_is_better=False)


def _changes(sequence: _Sequence, significance: float, tests: int) -> Iterator[Change]:
    """Yield the changes of a sequence, each with the p of the whole family of `tests` sequences."""
    values = sequence.levels.values
    found = _steps(values) if sequence.exact else change_points(values, significance=significance)
    for one in found:
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


def _levels(points: Sequence[Point], value_of: Callable[[Point], float | None]) -> _Levels:
    """Return the average over the runs of each commit, in the order of the first run of each."""
    values: dict[str, list[float]] = {}
    started: dict[str, str] = {}
    for point in points:
        value = value_of(point)
        if value is not None and point.commit is not None:
            values.setdefault(point.commit, []).append(value)
            started.setdefault(point.commit, point.started_at)
    kept = list(values)[-MOST_COMMITS:]
    means = [statistics.fmean(values[commit]) for commit in kept]
    return _Levels(kept, [started[commit] for commit in kept], means)


def _groups(rows: _Rows, versions: Texts, machines: Texts) -> Iterator[tuple[_Rows, str, str]]:
    """Yield the rows of each version and machine, in the order in which they first come, with both."""
    pairs = versions.codes[rows].astype(np.intp) * len(machines.known) + machines.codes[rows]
    kinds, first, kind_of = np.unique(pairs, return_index=True, return_inverse=True)
    for kind in np.argsort(first).tolist():
        version, machine = divmod(int(kinds[kind]), len(machines.known))
        yield rows[kind_of == kind], versions.known[version] or "", machines.known[machine] or ""


def _levels_in(figures: SeriesFigures, rows: _Rows, column: Floats, *, in_logs: bool = False) -> _Levels:
    """Return what `_levels` does for the checks at `rows`; logarithms are of what is above 0."""
    values = column[rows]
    rows = rows[values > 0.0] if in_logs else rows[~np.isnan(values)]
    codes = figures.commit.codes[rows]
    # Of each commit the place of its first check; numpy.unique would sort thousands of them for each series.
    first = np.full(len(figures.commit.known), rows.size)
    first[codes[::-1]] = np.arange(rows.size)[::-1]
    found = np.flatnonzero(first < rows.size)
    kept = found[np.argsort(first[found])][-MOST_COMMITS:]
    rank = np.full(first.size, -1)
    rank[kept] = np.arange(kept.size)
    of_kept = np.flatnonzero(rank[codes] >= 0)
    ordered = of_kept[np.argsort(rank[codes[of_kept]], kind="stable")]
    each: list[float] = column[rows[ordered]].tolist()
    if in_logs:
        each = list(map(math.log, each))
    means = each
    if len(each) > kept.size:
        ends = np.cumsum(np.bincount(rank[codes[of_kept]])).tolist()
        means = [statistics.fmean(each[start:end]) for start, end in itertools.pairwise([0, *ends])]
    commit, started_at = figures.commit.known, figures.started_at.known
    return _Levels(
        [commit[code] or "" for code in kept.tolist()],
        [started_at[code] or "" for code in figures.started_at.codes[rows[first[kept]]].tolist()],
        means,
    )


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
