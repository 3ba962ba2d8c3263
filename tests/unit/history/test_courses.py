"""The course of many series: so many points of each, what changed on its branch, and what was accepted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pytest_quant.history import Point, SeriesFigures, SeriesSummary
from pytest_quant.history.courses import courses
from tests.support.pages import course, figures_from, points


@dataclass
class _Kept:
    """A history in memory; it remembers how many points were asked for."""

    series_of: dict[str, list[Point]]
    asked: list[int | None] = field(default_factory=list)

    def series(self) -> list[SeriesSummary]:
        return [
            SeriesSummary(key, key, "digits", "ort-int8-static", "top1", len(found), "")
            for key, found in self.series_of.items()
        ]

    def figures(self, series: Sequence[str], *, limit: int | None = None) -> list[SeriesFigures]:
        self.asked.append(limit)
        return [figures_from(self.series_of[key][-(limit or 0) :], key) for key in series]


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
    """Whatever the bound, 30 of each are kept; without one, as many as a chart takes."""
    kept = _Kept({str(number): points(50) for number in range(10)})
    courses(kept, list(kept.series_of), {}, most_points=10)
    courses(kept, ["0"], {}, most_points=None, most_each=45)
    assert kept.asked == [30, 45]


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
