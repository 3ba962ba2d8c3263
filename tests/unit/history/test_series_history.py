"""The history of many series: so many points of each, what changed on its branch, and what was accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_quant.history import CheckSummary, SeriesSummary
from pytest_quant.history.series_history import series_histories
from pytest_quant.history.store import Store
from tests.support.pages import history_of, points


class _InMemory(Store):
    """A history in memory; it remembers how many points were asked for."""

    def __init__(self, stored: Mapping[str, Sequence[CheckSummary]]) -> None:
        self.stored = stored
        self.limits: list[int | None] = []

    def series(self) -> list[SeriesSummary]:
        return [
            SeriesSummary(key, key, "digits", "ort-int8-static", "top1", len(points_of_it), "")
            for key, points_of_it in self.stored.items()
        ]

    def points(self, series: str, *, limit: int | None = None, **_: str | None) -> list[CheckSummary]:
        self.limits.append(limit)
        return list(self.stored[series][-(limit or 0) :])


def test_series_come_in_the_order_that_is_asked_for() -> None:
    """Each once; one that the history does not have is left out."""
    store = _InMemory({name: points(5, series=name) for name in "abc"})
    assert [history.summary.key for history in series_histories(store, ["c", "x", "a", "c"], {})] == ["c", "a"]
    assert series_histories(store, [], {}) == []


def test_many_series_share_a_bound_on_points() -> None:
    """The newest of each are kept, and the summary still tells how many there are."""
    store = _InMemory({str(number): points(100) for number in range(10)})
    histories = series_histories(store, [str(number) for number in range(10)], {}, most_points=400)
    assert store.limits == [40] * 10
    assert histories[0].points == points(100)[-40:]
    assert histories[0].summary.n_points == 100


def test_few_points_are_still_a_chart() -> None:
    """Whatever the bound, 30 of each are kept, and of a single series no more than a chart takes."""
    store = _InMemory({str(number): points(50) for number in range(10)})
    series_histories(store, list(store.stored), {}, most_points=10)
    series_histories(store, ["0"], {})
    assert store.limits == [30] * 10 + [5000]


def test_changes_are_those_of_the_branch_with_most_points() -> None:
    """Points of another branch neither hide nor make one."""
    other = [replace(point, speedup=9.0) for point in points(20, branch="topic")]
    (history,) = series_histories(_InMemory({"a": [*points(80), *other]}), ["a"], {})
    assert history.branch == "main"
    assert [change.quantity for change in history.changes] == ["speedup"]
    assert history.changes[0].first_bad == points(80)[40].commit


def test_of_two_branches_with_as_many_points_the_newest_counts() -> None:
    """A history that has just begun a branch shows it."""
    (history,) = series_histories(_InMemory({"a": [*points(5), *points(5, branch="topic")]}), ["a"], {})
    assert history.branch == "topic"


def test_an_accepted_baseline_goes_with_its_series() -> None:
    """One whose removal was accepted has no figures."""
    entry = history_of(points(1), accepted=True).accepted
    assert entry is not None
    store = _InMemory({key: points(5) for key in ("a", "b", "c")})
    histories = series_histories(store, ["a", "b", "c"], {"a": entry, "b": replace(entry, removed=True)})
    assert [history.accepted for history in histories] == [entry, None, None]


def test_a_series_without_points_has_no_branch() -> None:
    """As one that was pruned between two queries."""
    (history,) = series_histories(_InMemory({"a": []}), ["a"], {})
    assert (history.branch, history.changes, history.points) == (None, (), [])
