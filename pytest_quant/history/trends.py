"""A series over the commits of a branch: its summary, and the commits at which its score or speed changed."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_quant.result import Status
from pytest_quant.stats.changes import ChangePoint, change_points


@dataclass(frozen=True, slots=True)
class Point:
    """The summary of one check; a figure is ``None`` when it was not measured.

    Attributes
    ----------
    started_at : start of its run, UTC, ISO 8601.
    series : key of its series, see `pytest_quant.record.series_key`.
    version, identity : see `pytest_quant.history.rows`.
    metric, unit, better : `better` is ``higher`` or ``lower``.
    n : samples compared.
    reference, candidate, drop : in `unit`; drop > 0 is worse.
    agreement_pct, coverage_pct : 0..100.
    speedup : reference / candidate; > 1 is faster.
    size_mb : of the candidate, in 10^6 bytes.
    """

    run_id: str
    started_at: str
    commit: str | None
    branch: str | None
    dirty: bool
    series: str
    version: str
    identity: str
    isa: str
    status: Status
    metric: str | None = None
    unit: str | None = None
    better: str | None = None
    n: int | None = None
    reference: float | None = None
    candidate: float | None = None
    drop: float | None = None
    agreement_pct: float | None = None
    speedup: float | None = None
    reference_p50_ms: float | None = None
    candidate_p50_ms: float | None = None
    coverage_pct: float | None = None
    size_mb: float | None = None


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """One series.

    Attributes
    ----------
    nodeid : of the test, without the parameters that lists in the mark add.
    engine_id : of the candidate, ``ort-int8-static``.
    n_points : number of its checks in the history.
    last_started_at : start of the last run with one of them, UTC, ISO 8601.
    """

    key: str
    nodeid: str
    model: str
    engine_id: str
    metric: str | None
    n_points: int
    last_started_at: str


MOST_COMMITS = 400
"""Number of newest commits of a series that are searched; the time of the search grows with its square."""

CONFIDENT_POINTS = 5
"""With fewer commits after it a change is only probable."""

LEAST_SPEED_PCT = 2.0
"""Smaller changes of speed are left out: a machine varies that much from day to day."""

_SAME = 1e-9


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
    confidence : 1 - p of the permutation test; 1 for a score that repeats exactly before and after.
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


@dataclass(frozen=True, slots=True)
class _Level:
    """The mean over all runs of one commit, on the scale that is searched."""

    commit: str
    started_at: str
    value: float


def find_changes(points: Iterable[Point], *, confidence: float = 0.95) -> list[Change]:
    """Return the changes of one series on one branch, the latest first.

    Points of each version of data and metric are searched separately, scores for each instruction set, speeds for each
    identity of the machine. All runs of a commit are averaged; runs with uncommitted changes, and checks without the
    figure, are left out. Where a score usually repeats exactly from commit to commit every step counts as a change;
    other figures are searched by `change_points`.

    Parameters
    ----------
    points : of one series and branch, oldest first.
    confidence : 1 - the probability of a false alarm for figures that never change, for each series and quantity.
    """
    clean = [point for point in points if point.commit is not None and not point.dirty]
    changes = [
        *_by_group(clean, lambda point: (point.version, point.isa), _scores, confidence),
        *_by_group(clean, lambda point: (point.version, point.identity), _speeds, confidence),
    ]
    return sorted(changes, key=lambda change: change.first_bad_at, reverse=True)


def _by_group(
    points: Sequence[Point],
    group_of: Callable[[Point], tuple[str, str]],
    search: Callable[[Sequence[Point], str, float], Iterator[Change]],
    confidence: float,
) -> Iterator[Change]:
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        groups.setdefault(group_of(point), []).append(point)
    for (_, machine), group in groups.items():
        yield from search(group, machine, confidence)


def _scores(points: Sequence[Point], machine: str, confidence: float) -> Iterator[Change]:
    levels = _levels(points, lambda point: point.candidate)
    values = [level.value for level in levels]
    exact = _repeats(values)
    changes = _steps(values) if exact else change_points(values, significance=1.0 - confidence)
    better, unit = points[-1].better, points[-1].unit or ""
    for change in changes:
        size = change.after - change.before
        improved = None if better is None else (size > 0.0) == (better == "higher")
        yield _change(points[-1].series, "score", unit, levels, change, size, improved, machine)


def _speeds(points: Sequence[Point], machine: str, confidence: float) -> Iterator[Change]:
    quantity, unit, faster_is_more = "speedup", "x", True
    levels = _levels(points, lambda point: _log(point.speedup))
    if not levels:
        quantity, unit, faster_is_more = "latency", "ms", False
        levels = _levels(points, lambda point: _log(point.candidate_p50_ms))
    changes = change_points([level.value for level in levels], significance=1.0 - confidence)
    for change in changes:
        size_pct = 100.0 * math.expm1(change.after - change.before)
        if abs(size_pct) < LEAST_SPEED_PCT:
            continue
        shown = ChangePoint(change.index, change.p_value, math.exp(change.before), math.exp(change.after))
        improved = (size_pct > 0.0) == faster_is_more
        yield _change(points[-1].series, quantity, unit, levels, shown, size_pct, improved, machine)


def _change(
    series: str,
    quantity: str,
    unit: str,
    levels: Sequence[_Level],
    point: ChangePoint,
    size: float,
    improved: bool | None,
    machine: str,
) -> Change:
    after = len(levels) - point.index
    return Change(
        series=series,
        quantity=quantity,
        unit=unit,
        last_good=levels[point.index - 1].commit,
        first_bad=levels[point.index].commit,
        first_bad_at=levels[point.index].started_at,
        before=point.before,
        after=point.after,
        size=size,
        improved=improved,
        confidence=1.0 - point.p_value,
        probable=after < CONFIDENT_POINTS,
        commits_after=after,
        machine=machine,
    )


def _levels(points: Sequence[Point], value_of: Callable[[Point], float | None]) -> list[_Level]:
    """Return the average over the runs of each commit, in the order of the first run of each."""
    values: dict[str, list[float]] = {}
    started: dict[str, str] = {}
    for point in points:
        value = value_of(point)
        if value is not None and point.commit is not None:
            values.setdefault(point.commit, []).append(value)
            started.setdefault(point.commit, point.started_at)
    kept = list(values)[-MOST_COMMITS:]
    return [_Level(commit, started[commit], statistics.fmean(values[commit])) for commit in kept]


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
