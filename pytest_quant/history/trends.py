"""The commits of a branch at which the score or the speed of a series changed, and the history that a chart shows."""

from __future__ import annotations

import itertools
import math
import os
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_quant.environment.revision import ask_git, ci_target, main_branch
from pytest_quant.history.baselines.file import BaselineEntry
from pytest_quant.history.rows import group_items
from pytest_quant.history.summaries import CONFIDENT_POINTS, Change, CheckSummary, SeriesSummary
from pytest_quant.stats.changes import ChangePoint, change_points

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

MOST_COMMITS = 400
"""Number of newest commits of a series that are searched; so many looks share the probability of a false alarm."""

LEAST_SPEED_PCT = 2.0
"""Smaller changes of speed are left out: a machine varies that much from day to day."""

_SAME = 1e-9


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
        *_split_by_group(clean, lambda point: (point.version, point.isa), _scores),
        *_split_by_group(clean, lambda point: (point.version, point.identity), _speeds),
    ]
    # A step of a score that repeats exactly is no test, and takes no part.
    tests = family * max(1, sum(not sequence.exact for sequence in sequences))
    significance = (1.0 - confidence) / tests
    changes = [change for sequence in sequences for change in _changes(sequence, significance, tests)]
    return sorted(changes, key=lambda change: change.first_bad_at, reverse=True)


_Level = tuple[str, str, float]


@dataclass(frozen=True, slots=True)
class _Sequence:
    """What is searched by itself: one quantity on one machine.

    Attributes
    ----------
    levels : of each commit, in the order of their first runs: its id, the start of the first run, and the mean over all
        its runs, on the scale that is searched.
    more_is_better : ``None`` when the direction of the metric is not known.
    exact : each value usually repeats exactly from commit to commit.
    """

    series: str
    quantity: str
    unit: str
    machine: str
    levels: Sequence[_Level]
    more_is_better: bool | None
    exact: bool = False


def _split_by_group(
    points: Sequence[CheckSummary],
    group_of: Callable[[CheckSummary], tuple[str, str]],
    sequence_of: Callable[[Sequence[CheckSummary], str], _Sequence],
) -> Iterator[_Sequence]:
    sequences = (sequence_of(group, machine) for (_, machine), group in group_items(points, group_of).items())
    return (sequence for sequence in sequences if sequence.levels)


def _scores(points: Sequence[CheckSummary], machine: str) -> _Sequence:
    levels = _levels(points, lambda point: point.candidate)
    # A check without a score, as one that could not run, knows neither unit nor direction.
    last = next((point for point in reversed(points) if point.candidate is not None), points[-1])
    more_is_better = None if last.better is None else last.better == "higher"
    same = (_is_same(before, after) for (*_, before), (*_, after) in itertools.pairwise(levels))
    exact = 2 * sum(same) >= len(levels) - 1
    return _Sequence(last.series, "score", last.unit or "", machine, levels, more_is_better, exact)


def _speeds(points: Sequence[CheckSummary], machine: str) -> _Sequence:
    series = points[-1].series
    if levels := _levels(points, lambda point: _log(point.speedup)):
        return _Sequence(series, "speedup", "x", machine, levels, more_is_better=True)
    levels = _levels(points, lambda point: _log(point.candidate_p50_ms))
    return _Sequence(series, "latency", "ms", machine, levels, more_is_better=False)


def _changes(sequence: _Sequence, significance: float, tests: int) -> Iterator[Change]:
    """Yield the changes of a sequence, each with the p of the whole family of `tests` sequences."""
    values = [value for *_, value in sequence.levels]
    for point in _steps(values) if sequence.exact else change_points(values, significance=significance):
        before, after, size = point.before, point.after, point.after - point.before
        if sequence.quantity != "score":
            before, after, size = math.exp(before), math.exp(after), 100.0 * math.expm1(size)
            if abs(size) < LEAST_SPEED_PCT:
                continue
        commits_after = len(values) - point.index
        first_bad, first_bad_at, _ = sequence.levels[point.index]
        yield Change(
            last_good=sequence.levels[point.index - 1][0],
            first_bad=first_bad,
            first_bad_at=first_bad_at,
            before=before,
            after=after,
            size=size,
            improved=None if sequence.more_is_better is None else (size > 0.0) == sequence.more_is_better,
            confidence=1.0 - min(tests * point.p_value, 1.0),
            probable=commits_after < CONFIDENT_POINTS,
            commits_after=commits_after,
            **{name: getattr(sequence, name) for name in ("series", "quantity", "unit", "machine")},
        )


def _levels(points: Sequence[CheckSummary], value_of: Callable[[CheckSummary], float | None]) -> list[_Level]:
    """Return the newest commits, the start of the first run of each, and the average over its runs."""
    values: dict[str, list[float]] = {}
    started: dict[str, str] = {}
    for point in points:
        value = value_of(point)
        if value is not None and point.commit is not None:
            values.setdefault(point.commit, []).append(value)
            started.setdefault(point.commit, point.started_at)
    return [(commit, started[commit], statistics.fmean(values[commit])) for commit in list(values)[-MOST_COMMITS:]]


def _log(value: float | None) -> float | None:
    return math.log(value) if value is not None and value > 0.0 else None


def _steps(values: Sequence[float]) -> tuple[ChangePoint, ...]:
    """Return every change of a value that repeats exactly."""
    pairs = enumerate(itertools.pairwise(values), 1)
    return tuple(ChangePoint(at, 0.0, before, after) for at, (before, after) in pairs if not _is_same(before, after))


def _is_same(before: float, after: float) -> bool:
    return math.isclose(before, after, rel_tol=_SAME, abs_tol=_SAME)


MOST_POINTS = 20_000
"""Of all series of a page together."""

_MOST_EACH = 5_000
"""Of one series: as many as a chart of it stays fluid with."""

_LEAST_EACH = 30

_MOST_SUBJECTS = 700
"""As many ids of commits as a command of every system has room for."""


@dataclass(frozen=True, slots=True)
class SeriesHistory:
    """One series as a chart shows it.

    Attributes
    ----------
    summary : name of the series, and how many points the history has of it.
    points : the newest ones of every branch, oldest first.
    branch : the main branch, or where no point is of it the one that most of them are of; ``None`` where that is not
        known.
    changes : of level among the points of that branch, the latest first.
    accepted : its baseline, ``None`` when none was accepted.
    subjects : first line of the message of each commit that git has, by its id; those of all series of a page.
    """

    summary: SeriesSummary
    points: Sequence[CheckSummary] = field(repr=False)
    branch: str | None = None
    changes: tuple[Change, ...] = ()
    accepted: BaselineEntry | None = None
    subjects: Mapping[str, str] = field(default_factory=dict, repr=False)


def series_histories(
    store: Store, keys: Sequence[str], accepted: Mapping[str, BaselineEntry], *, most_points: int = MOST_POINTS
) -> list[SeriesHistory]:
    """Return the history of each series that the store has, in the order of `keys`.

    The main branch and the messages of commits are those of the repository around the working directory: the target of
    a pull request in CI, else the default branch.

    Parameters
    ----------
    store : the history.
    keys : of series.
    accepted : baselines by series.
    most_points : of all series together; of each the newest ones are read.

    Raises
    ------
    HistoryError : the history cannot be read.
    """
    summaries = {summary.key: summary for summary in store.series(keys)}
    stored = [key for key in dict.fromkeys(keys) if key in summaries]
    limit = min(_MOST_EACH, max(most_points // max(len(stored), 1), _LEAST_EACH))
    read = {key: store.points(key, limit=limit) for key in stored}
    main = ci_target(os.environ) or main_branch(Path())
    subjects = _subjects(itertools.chain.from_iterable(read.values()))
    in_force = {key: entry for key, entry in accepted.items() if not entry.removed}
    histories = []
    for key, points in read.items():
        # Of branches with as many points, that whose last point is the newest: the first of equals comes first.
        counts = Counter(point.branch for point in reversed(points))
        branch = main if main in counts else next((name for name, _ in counts.most_common(1)), None)
        changes = find_changes([point for point in points if point.branch == branch], family=len(stored))
        histories.append(SeriesHistory(summaries[key], points, branch, tuple(changes), in_force.get(key), subjects))
    return histories


def _subjects(points: Iterable[CheckSummary]) -> dict[str, str]:
    """Return the first line of the message of each of the newest commits that git has, by its id."""
    newest_first = sorted(points, key=lambda point: point.started_at, reverse=True)
    # What was imported may call anything a commit, an option of git too.
    named = (point.commit or "" for point in newest_first)
    commits = [commit for commit in dict.fromkeys(named) if re.fullmatch("[0-9a-f]{40,64}", commit)][:_MOST_SUBJECTS]
    shown = ("--no-walk=unsorted", "--ignore-missing", "--format=%H %s")
    lines = ask_git(Path(), "-c", "log.showSignature=false", "log", *shown, *commits, "--").text.split("\n")
    return {commit: subject for commit, _, subject in (line.partition(" ") for line in lines) if subject}
