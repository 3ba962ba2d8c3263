"""The course of many series: so many points of each, what changed on its branch, and what was accepted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pytest_quant.history import Point, SeriesFigures, SeriesSummary, StoredRun
from pytest_quant.history.courses import courses
from tests.support.pages import course, figures_from, points
from tests.unit.record.examples import RUN


@dataclass
class _Kept:
    """A history in memory; it remembers how many points were asked for."""

    series_of: dict[str, list[Point]]
    asked: list[int | None] = field(default_factory=list)
    since: list[str | None] = field(default_factory=list)

    def series(self) -> list[SeriesSummary]:
        return [
            SeriesSummary(key, key, "digits", "ort-int8-static", "top1", len(found), "")
            for key, found in self.series_of.items()
        ]

    def figures(
        self, series: Sequence[str], *, since: str | None = None, limit: int | None = None
    ) -> list[SeriesFigures]:
        self.asked.append(limit)
        self.since.append(since)
        found = [[one for one in self.series_of[key] if one.started_at >= (since or "")] for key in series]
        return [figures_from(each[-(limit or 0) :], key) for key, each in zip(series, found, strict=True)]

    def runs(self, limit: int | None = None) -> list[StoredRun]:
        starts = sorted({one.started_at for each in self.series_of.values() for one in each}, reverse=True)
        return [StoredRun(replace(RUN, started_at=start), {}) for start in starts[:limit]]


def test_series_come_in_the_order_that_is_asked_for() -> None:
    """Each once; one that the history does not have is left out."""
    kept = _Kept({name: points(5, series=name) for name in "abc"})
    assert [one.summary.key for one in courses(kept, ["c", "x", "a", "c"], {})] == ["c", "a"]


def test_many_series_share_a_bound_on_points() -> None:
    """The newest of each are kept, and the summary still tells how many there are."""
    kept = _Kept({str(number): points(100) for number in range(10)})
    found = courses(kept, [str(number) for number in range(10)], {}, most_points=400)
    assert kept.asked == [40]
    assert {one.figures.n for one in found} == {40}
    assert found[0].figures.speedup[-1] == points(100)[-1].speedup
    assert found[0].summary.n_points == 100


def test_few_points_are_still_a_chart() -> None:
    """Whatever the bound, 30 of each are kept, and of a single series no more than a chart takes."""
    kept = _Kept({str(number): points(50) for number in range(10)})
    courses(kept, list(kept.series_of), {}, most_points=10)
    courses(kept, ["0"], {})
    assert kept.asked == [30, 5000]


def test_of_a_long_history_the_newest_runs_are_read() -> None:
    """And of a series that was seldom run all that is missing, so that each has its newest points."""
    often, seldom = points(500, series="often"), points(500, series="seldom")[:490:7]
    kept = _Kept({"often": often, "seldom": seldom})
    found = courses(kept, ["seldom", "often"], {}, most_points=60)
    assert kept.since == [often[-30].started_at, None]
    assert [one.figures.started_at.each() for one in found] == [
        [one.started_at for one in each[-30:]] for each in (seldom, often)
    ]


def test_changes_are_those_of_the_branch_with_most_points() -> None:
    """Points of another branch neither hide nor make one."""
    other = [replace(point, speedup=9.0) for point in points(20, branch="topic")]
    (found,) = courses(_Kept({"a": [*points(80), *other]}), ["a"], {})
    assert found.branch == "main"
    assert [change.quantity for change in found.changes] == ["speedup"]
    assert found.changes[0].first_bad == points(80)[40].commit


def test_of_two_branches_with_as_many_points_the_newest_counts() -> None:
    """A history that has just begun a branch shows it."""
    (found,) = courses(_Kept({"a": [*points(5), *points(5, branch="topic")]}), ["a"], {})
    assert found.branch == "topic"


def test_an_accepted_baseline_goes_with_its_series() -> None:
    """One whose removal was accepted has no figures."""
    entry = course(points(1), accepted=True).accepted
    assert entry is not None
    kept = _Kept({key: points(5) for key in ("a", "b", "c")})
    found = courses(kept, ["a", "b", "c"], {"a": entry, "b": replace(entry, removed=True)})
    assert [one.accepted for one in found] == [entry, None, None]


def test_a_series_without_points_has_no_branch() -> None:
    """As one that was pruned between two queries."""
    (found,) = courses(_Kept({"a": []}), ["a"], {})
    assert (found.branch, found.changes, found.figures.n) == (None, (), 0)


def test_a_key_is_any_text() -> None:
    """Also one that others wrote."""
    key = json.dumps(["<b>", None])
    assert [one.summary.key for one in courses(_Kept({key: points(3)}), [key], {})] == [key]
