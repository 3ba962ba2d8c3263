"""The history of each series of a page: its newest points, what changed in them, and what was accepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_quant.history.baselines.file import BaselineEntry
from pytest_quant.history.summaries import Change, CheckSummary, SeriesSummary
from pytest_quant.history.trends import find_changes

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

MOST_POINTS = 20_000
"""Of all series of a page together."""

_MOST_EACH = 5_000
"""Of one series: as many as a chart of it stays fluid with."""

_LEAST_EACH = 30


@dataclass(frozen=True, slots=True)
class SeriesHistory:
    """One series as a chart shows it.

    Attributes
    ----------
    summary : name of the series, and how many points the history has of it.
    points : the newest ones of every branch, oldest first.
    branch : the branch that most of them are of; ``None`` where that is not known.
    changes : of level among the points of that branch, the latest first.
    accepted : its baseline, ``None`` when none was accepted.
    """

    summary: SeriesSummary
    points: Sequence[CheckSummary] = field(repr=False)
    branch: str | None = None
    changes: tuple[Change, ...] = ()
    accepted: BaselineEntry | None = None


def series_histories(
    store: Store, keys: Sequence[str], accepted: Mapping[str, BaselineEntry], *, most_points: int = MOST_POINTS
) -> list[SeriesHistory]:
    """Return the history of each series that the store has, in the order of `keys`.

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
    summaries = {summary.key: summary for summary in store.series()}
    stored = [key for key in dict.fromkeys(keys) if key in summaries]
    limit = min(_MOST_EACH, max(most_points // max(len(stored), 1), _LEAST_EACH))
    return [
        series_history(summaries[key], store.points(key, limit=limit), accepted.get(key), family=len(stored))
        for key in stored
    ]


def series_history(
    summary: SeriesSummary, points: Sequence[CheckSummary], accepted: BaselineEntry | None = None, family: int = 1
) -> SeriesHistory:
    """Return the history of one series, with the changes on the branch that most of its points are of.

    Parameters
    ----------
    summary : of the series.
    points : of the series, oldest first.
    accepted : its baseline.
    family : number of series that are looked at together, see `find_changes`.
    """
    branch = _main_branch(points)
    changes = find_changes([point for point in points if point.branch == branch], family=family)
    in_force = accepted if accepted is not None and not accepted.removed else None
    return SeriesHistory(summary, points, branch, tuple(changes), in_force)


def _main_branch(points: Sequence[CheckSummary]) -> str | None:
    """Return the branch of most points; of several with as many, the one whose last point is the newest."""
    counts = Counter(point.branch for point in points)
    most = max(counts.values(), default=0)
    return next((point.branch for point in reversed(points) if counts[point.branch] == most), None)
