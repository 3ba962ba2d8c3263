"""The course of many series at once: their newest points, what changed in them, and what was accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_quant.history.baselines.entry import BaselineEntry
from pytest_quant.history.change import Change
from pytest_quant.history.figures import SeriesFigures, Texts
from pytest_quant.history.points import SeriesSummary
from pytest_quant.history.rows import StoredRun
from pytest_quant.history.trends import find_changes_in

MOST_POINTS = 20_000
"""Of all series of a page together."""

_MOST_EACH = 5_000
"""Of one series: as many as a chart of it stays fluid with."""

_LEAST_EACH = 30

_MANY = 4
"""Of so many times the points that are wanted not all are read."""


@dataclass(frozen=True, slots=True)
class Course:
    """One series as a chart shows it.

    Attributes
    ----------
    summary : name of the series, and how many points the history has of it.
    figures : of the newest points, oldest first, of every branch.
    branch : the branch that most of them are of; ``None`` where that is not known.
    changes : of level among the points of that branch, the latest first.
    accepted : its baseline, ``None`` when none was accepted.
    """

    summary: SeriesSummary
    figures: SeriesFigures = field(repr=False)
    branch: str | None = None
    changes: tuple[Change, ...] = ()
    accepted: BaselineEntry | None = None


class History(Protocol):
    """Access to the series of a history, as `Store` gives it."""

    def series(self) -> list[SeriesSummary]:
        """Return a summary of every series."""

    def figures(
        self, series: Sequence[str], *, since: str | None = None, limit: int | None = None
    ) -> list[SeriesFigures]:
        """Return the figures of the newest checks of each series, oldest first."""

    def runs(self, limit: int | None = None) -> list[StoredRun]:
        """Return runs, newest first."""


def courses(
    store: History,
    wanted: Sequence[str],
    accepted: Mapping[str, BaselineEntry],
    *,
    most_points: int = MOST_POINTS,
) -> list[Course]:
    """Return the course of each series that the history has, in the order of `wanted`.

    Parameters
    ----------
    store : the history.
    wanted : keys of series.
    accepted : baselines by series.
    most_points : of all series together.

    Raises
    ------
    HistoryError : the history cannot be read.
    """
    known = {summary.key: summary for summary in store.series()}
    keys = [key for key in dict.fromkeys(wanted) if key in known]
    if not keys:
        return []
    limit = min(_MOST_EACH, max(most_points // len(keys), _LEAST_EACH))
    newest = _newest(store, {key: known[key].n_points for key in keys}, limit)
    return [course_of(known[found.key], found, accepted.get(found.key), len(keys)) for found in newest]


def _newest(store: History, numbers: Mapping[str, int], limit: int) -> list[SeriesFigures]:
    """Return the figures of the newest `limit` points of each series, of which the history has so many `numbers`.

    Of long histories those of the newest runs are read first. Most often that is all, and takes a tenth of the time; a
    series that has more points in older runs is read again.
    """
    keys = list(numbers)
    last = store.runs(limit) if sum(numbers.values()) > _MANY * limit * len(keys) else []
    if not last:
        return store.figures(keys, limit=limit)
    found = {one.key: one for one in store.figures(keys, since=last[-1].run.started_at, limit=limit)}
    fewer = [key for key in keys if found[key].n < min(limit, numbers[key])]
    found |= {one.key: one for one in store.figures(fewer, limit=limit)} if fewer else {}
    return [found[key] for key in keys]


def course_of(
    summary: SeriesSummary, figures: SeriesFigures, accepted: BaselineEntry | None = None, family: int = 1
) -> Course:
    """Return the course of one series, with the changes on the branch that most of its points are of.

    Parameters
    ----------
    summary : of the series.
    figures : of its points, oldest first.
    accepted : its baseline.
    family : number of series that are looked at together, see `find_changes`.
    """
    branch = _main_branch(figures)
    found = find_changes_in(_those(figures, on_branch(figures, branch)), family=family)
    kept = accepted if accepted is not None and not accepted.removed else None
    return Course(summary, figures, branch, tuple(found), kept)


def on_branch(figures: SeriesFigures, branch: str | None) -> NDArray[np.bool_]:
    """Return which points (n,) are of `branch`."""
    codes = [code for code, name in enumerate(figures.branch.known) if name == branch]
    return np.isin(figures.branch.codes, codes)


def _main_branch(figures: SeriesFigures) -> str | None:
    """Return the branch of most points; of several with as many, the one whose last point is the newest."""
    codes = figures.branch.codes
    if not codes.size:
        return None
    numbers = np.bincount(codes)
    most = np.isin(codes, np.flatnonzero(numbers == numbers.max()))
    return figures.branch.known[int(codes[np.flatnonzero(most)[-1]])]


def _those(figures: SeriesFigures, chosen: NDArray[np.bool_]) -> SeriesFigures:
    """Return the figures of the points that are `chosen` (n,)."""
    if chosen.all():
        return figures
    columns: dict[str, Any] = {one.name: getattr(figures, one.name) for one in fields(figures)}
    cut: dict[str, Any] = {
        name: Texts(column.known, column.codes[chosen]) if isinstance(column, Texts) else column[chosen]
        for name, column in columns.items()
        if isinstance(column, (Texts, np.ndarray))
    }
    return replace(figures, **cut)
