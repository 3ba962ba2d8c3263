"""A series over the commits of a branch: its summary, and where its score or its speed changed."""

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
    """One check, once, without its details; a figure is ``None`` when it was not measured.

    Attributes
    ----------
    started_at : of its run, UTC, ISO 8601.
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
    nodeid : the test, without what our own lists add to it.
    engine_id : of the candidate, ``ort-int8-static``.
    n_points : checks of it in the history.
    last_started_at : when the last run with one of them started, UTC, ISO 8601.
    """

    key: str
    nodeid: str
    model: str
    engine_id: str
    metric: str | None
    n_points: int
    last_started_at: str


MOST_COMMITS = 400
"""The newest commits of a series are searched; the time of the search grows with their number squared."""

CONFIDENT_POINTS = 5
"""Fewer commits after a change leave it probable."""

LEAST_SPEED_PCT = 2.0
"""Smaller changes of speed are left out: they are what another day's machine does."""

_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Change:
    """A change of level between two commits that were judged.

    Attributes
    ----------
    quantity : ``score`` of the candidate, ``speedup`` over the reference, or ``latency`` where nothing else is known.
    last_good, first_bad : the commits on both sides; what caused it came after the first and not after the second.
        A change for the better has them too.
    before, after : medians of the levels, in `unit`.
    size : percent of `before` for speedup and latency, else the difference in `unit`.
    improved : it is for the better; ``None`` when the metric does not tell which way that is.
    confidence : 1 - p of the permutation test; 1 for a score that is the same bit for bit on each side.
    probable : fewer than five commits confirm it yet.
    commits_after : commits that were judged since, the first of the new level among them.
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
    """The mean of all runs of one commit, on the scale that is searched."""

    commit: str
    started_at: str
    value: float


def find_changes(points: Iterable[Point], *, confidence: float = 0.95) -> list[Change]:
    """Return the changes of one series on one branch, the latest first.

    Each machine and each version of what is measured is searched apart: a score by instruction set, speed by
    identity. All runs of a commit are averaged; runs of uncommitted work, and checks without the figure, are left
    out. Where a score repeats exactly from commit to commit every step is a fact; other figures are searched by
    `change_points`.

    Parameters
    ----------
    points : of one series and branch, oldest first.
    confidence : 1 - the chance that figures which never change raise an alarm, for each series and quantity.
    """
    clean = [point for point in points if point.commit is not None and not point.dirty]
    found = [
        *_by_group(clean, lambda point: (point.version, point.isa), _scores, confidence),
        *_by_group(clean, lambda point: (point.version, point.identity), _speeds, confidence),
    ]
    return sorted(found, key=lambda change: change.first_bad_at, reverse=True)


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
    found = _steps(values) if exact else change_points(values, significance=1.0 - confidence)
    better, unit = points[-1].better, points[-1].unit or ""
    for change in found:
        size = change.after - change.before
        improved = None if better is None else (size > 0.0) == (better == "higher")
        yield _change(points[-1].series, "score", unit, levels, change, size, improved, machine)


def _speeds(points: Sequence[Point], machine: str, confidence: float) -> Iterator[Change]:
    quantity, unit, faster_is_more = "speedup", "x", True
    levels = _levels(points, lambda point: _log(point.speedup))
    if not levels:
        quantity, unit, faster_is_more = "latency", "ms", False
        levels = _levels(points, lambda point: _log(point.candidate_p50_ms))
    found = change_points([level.value for level in levels], significance=1.0 - confidence)
    for change in found:
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
    found: ChangePoint,
    size: float,
    improved: bool | None,
    machine: str,
) -> Change:
    after = len(levels) - found.index
    return Change(
        series=series,
        quantity=quantity,
        unit=unit,
        last_good=levels[found.index - 1].commit,
        first_bad=levels[found.index].commit,
        first_bad_at=levels[found.index].started_at,
        before=found.before,
        after=found.after,
        size=size,
        improved=improved,
        confidence=1.0 - found.p_value,
        probable=after < CONFIDENT_POINTS,
        commits_after=after,
        machine=machine,
    )


def _levels(points: Sequence[Point], value_of: Callable[[Point], float | None]) -> list[_Level]:
    """Average the runs of each commit; a commit stands where its first run does."""
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
    """Whether most commits give exactly the value of the one before, as an engine does that rounds no differently."""
    same = sum(_is_same(one, other) for one, other in itertools.pairwise(values))
    return 2 * same >= len(values) - 1


def _steps(values: Sequence[float]) -> tuple[ChangePoint, ...]:
    """Every place where an exact value moves."""
    pairs = enumerate(itertools.pairwise(values), 1)
    return tuple(ChangePoint(at, 0.0, one, other) for at, (one, other) in pairs if not _is_same(one, other))


def _is_same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_SAME, abs_tol=_SAME)
