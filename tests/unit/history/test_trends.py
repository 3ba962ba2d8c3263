"""A change is named by the commits around it, its size and how sure it is; a chart gets the newest points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace as replace_entry

from pytest_quant.history.store import Store
from pytest_quant.history.summaries import Change, CheckSummary, SeriesSummary
from pytest_quant.history.trends import LEAST_SPEED_PCT, find_changes, series_histories
from tests.support.pages import history_of, points
from tests.support.repository import ScratchRepository, make_repository, without_ci
from tests.unit.history.in_memory import a_point


def _scored(scores: Sequence[float | None]) -> list[CheckSummary]:
    return [a_point(number, candidate=score) for number, score in enumerate(scores)]


def _fast(speedups: Sequence[float | None]) -> list[CheckSummary]:
    return [a_point(number, speedup=speedup) for number, speedup in enumerate(speedups)]


def _noisy(*levels: tuple[int, float], seed: int = 0, noise: float = 0.005) -> list[float]:
    random = np.random.default_rng(seed)
    return [level * math.exp(noise * random.standard_normal()) for count, level in levels for _ in range(count)]


@pytest.mark.parametrize("figure", ["speedup", "candidate_p50_ms"])
def test_launches_of_a_commit_are_averaged_and_the_newest_commits_are_searched(figure: str) -> None:
    """Three launches of each of 500 commits, of speedups and of times alone."""
    values = _noisy((600, 2.0), (900, 1.8))
    points = [a_point(number % 28, commit=f"c{number // 3}", **{figure: value}) for number, value in enumerate(values)]
    (change,) = find_changes(points)
    assert (change.first_bad, change.commits_after) == ("c200", 300)


def test_an_exact_score_changes_where_it_moves() -> None:
    """Two points lower from the fourth commit on, in points of a hundred, without a doubt."""
    (result,) = find_changes(_scored([97.5, 97.5, 97.5, 95.5, 95.5, 95.5, 95.5, 95.5]))
    assert result == Change(
        series="key",
        quantity="score",
        unit="%",
        last_good="c2",
        first_bad="c3",
        first_bad_at="2026-01-04T00:00:00+00:00",
        before=97.5,
        after=95.5,
        size=-2.0,
        improved=False,
        confidence=1.0,
        probable=False,
        commits_after=5,
        machine="avx2",
    )


@pytest.mark.parametrize(("after", "probable"), [(1, True), (4, True), (5, False)])
def test_a_change_is_probable_until_five_commits_confirm_it(after: int, probable: bool) -> None:
    """The commit that shows it is the first of them."""
    (result,) = find_changes(_scored([90.0] * 6 + [91.0] * after))
    assert (result.probable, result.commits_after) == (probable, after)


def test_a_noisy_score_needs_more_than_a_step() -> None:
    """Where no two commits agree exactly, the test of changing levels decides."""
    random = np.random.default_rng(3)
    quiet = [95.0 + 0.05 * random.standard_normal() for _ in range(20)]
    assert find_changes(_scored(quiet)) == []
    (result,) = find_changes(_scored(quiet[:10] + [score - 1.0 for score in quiet[10:]]))
    assert (result.last_good, result.first_bad) == ("c9", "c10")
    assert 0.95 <= result.confidence < 1.0


def test_more_series_share_the_probability_of_a_false_alarm() -> None:
    """What 20 series tell is adjusted for 20, and must be as sure as one alone for all of them."""
    points = _fast(_noisy((20, 2.0), (3, 1.94)))
    (alone,) = find_changes(points)
    (result,) = find_changes(points, family=20)
    assert 1.0 - result.confidence == pytest.approx(20 * (1.0 - alone.confidence))
    sure = 1.0 - alone.confidence
    assert find_changes(points, confidence=1.0 - 21 * sure, family=20) != []
    assert find_changes(points, confidence=1.0 - 19 * sure, family=20) == []


def test_score_and_speed_of_one_series_are_two_tests() -> None:
    """Unless the score repeats exactly, which no test is made of."""
    speeds, scores = _noisy((20, 2.0), (5, 1.95)), _noisy((25, 90.0))
    pairs = enumerate(zip(speeds, scores, strict=True))
    noisy = [a_point(n, speedup=speed, candidate=score) for n, (speed, score) in pairs]
    exact = [a_point(n, speedup=speed, candidate=90.0) for n, speed in enumerate(speeds)]
    (of_two,), (of_one,) = find_changes(noisy), find_changes(exact)
    assert 1.0 - of_two.confidence == pytest.approx(2 * (1.0 - of_one.confidence))


def test_speed_is_told_in_percent_of_what_it_was() -> None:
    """From a speed-up of 2 to one of 1.6: 20 % less, which is worse."""
    (result,) = find_changes(_fast(_noisy((12, 2.0), (8, 1.6))))
    assert (result.quantity, result.last_good, result.first_bad) == ("speedup", "c11", "c12")
    assert result.size == pytest.approx(-20.0, abs=1.0)
    assert (result.improved, result.probable) == (False, False)
    assert result.before == pytest.approx(2.0, rel=0.01)


def test_latency_alone_is_searched_where_there_is_no_speedup() -> None:
    """As of imported benchmarks; more milliseconds are worse."""
    times = [a_point(number, candidate_p50_ms=ms) for number, ms in enumerate(_noisy((10, 4.0), (10, 5.0)))]
    (result,) = find_changes(times)
    assert (result.quantity, result.unit, result.improved) == ("latency", "ms", False)
    assert result.size == pytest.approx(25.0, abs=1.5)


def test_changes_of_speed_too_small_to_matter_are_left_out() -> None:
    """Even when they are significant: half of the least percent."""
    factor = 1.0 + LEAST_SPEED_PCT / 200.0
    assert find_changes(_fast(_noisy((15, 2.0), (15, 2.0 * factor), noise=1e-5))) == []
    assert find_changes(_fast(_noisy((15, 2.0), (15, 2.0 * factor**4), noise=1e-5))) != []


def test_what_was_not_measured_stays_missing() -> None:
    """The range spans the commits without a figure, and they are no change."""
    (result,) = find_changes(_scored([90.0, 90.0, 90.0, None, None, 88.0, 88.0]))
    assert (result.last_good, result.first_bad) == ("c2", "c5")


def test_another_machine_or_version_is_another_sequence() -> None:
    """Two machines, in turn or one after the other, one twice as fast, and new evaluation data, are no change."""
    speeds = _noisy((24, 2.0))
    mixed = [
        a_point(number, speedup=speed * (1 + number % 2), identity="ab"[number % 2])
        for number, speed in enumerate(speeds)
    ]
    assert find_changes(mixed) == []
    moved = [a_point(n, speedup=speed * (1 + n // 12), identity="ab"[n // 12]) for n, speed in enumerate(speeds)]
    assert find_changes(moved) == []
    versions = [a_point(number, candidate=90.0 + number // 6, version="vw"[number // 6]) for number in range(12)]
    assert find_changes(versions) == []


def test_uncommitted_work_is_left_out() -> None:
    """It is no commit that one could look at."""
    points = _scored([90.0] * 6)
    assert find_changes([*points, a_point(6, candidate=10.0, dirty=True), a_point(7, candidate=5.0, commit=None)]) == []


def test_a_lower_score_can_be_better() -> None:
    """The metric tells."""
    points = [a_point(number, candidate=2.0 if number < 4 else 1.0, better="lower") for number in range(8)]
    assert [change.improved for change in find_changes(points)] == [True]
    could_not_run = a_point(8, candidate=None, unit=None, better=None)
    assert [(change.unit, change.improved) for change in find_changes([*points, could_not_run])] == [("%", True)]
    unknown = [a_point(number, candidate=2.0 if number < 4 else 1.0, better=None) for number in range(8)]
    assert [change.improved for change in find_changes(unknown)] == [None]


class _InMemory(Store):
    """A history in memory; it remembers how many points were asked for."""

    def __init__(self, stored: Mapping[str, Sequence[CheckSummary]]) -> None:
        self.stored = stored
        self.limits: list[int | None] = []

    def series(self, keys: Sequence[str] | None = None) -> list[SeriesSummary]:
        return [
            SeriesSummary(key, len(points_of_it), "")
            for key, points_of_it in self.stored.items()
            if keys is None or key in keys
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
    """The newest of each are kept, 30 at least, of a single series no more than a chart takes; the total is told."""
    store = _InMemory({str(number): points(100) for number in range(10)})
    histories = series_histories(store, list(store.stored), {}, most_points=400)
    series_histories(store, list(store.stored), {}, most_points=10)
    series_histories(store, ["0"], {})
    assert store.limits == [40] * 10 + [30] * 10 + [5000]
    assert histories[0].points == points(100)[-40:]
    assert histories[0].summary.n_points == 100


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """The repository that is worked in, outside of CI."""
    without_ci(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return make_repository(tmp_path)


@pytest.mark.usefixtures("repository")
def test_changes_are_those_of_the_main_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many points another has: the target in CI, else the default; of none of them, that with most points."""
    other = [replace(point, speedup=9.0) for point in points(120, branch="topic")]
    store = _InMemory({"a": [*points(80), *other], "b": [*points(3, branch="old"), *other]})
    histories = series_histories(store, ["a", "b"], {})
    assert [history.branch for history in histories] == ["main", "topic"]
    assert [change.quantity for change in histories[0].changes] == ["speedup"]
    assert histories[0].changes[0].first_bad == points(80)[40].commit
    monkeypatch.setenv("GITHUB_BASE_REF", "old")
    assert [history.branch for history in series_histories(store, ["a", "b"], {})] == ["topic", "old"]


def test_a_commit_has_its_subject(repository: ScratchRepository) -> None:
    """As far as git has it; what no commit can be called is not asked for."""
    commit, hostile = repository.commit("Use entropy\n\nand more"), "--output=written"
    named = [replace(points(1)[0], commit=each) for each in (commit, hostile, "e" * 40, None)]
    (history,) = series_histories(_InMemory({"a": named}), ["a"], {})
    assert history.subjects == {commit: "Use entropy"}
    assert sorted(path.name for path in repository.path.iterdir()) == [".git", "file"]


def test_an_accepted_baseline_goes_with_its_series() -> None:
    """One whose removal was accepted has no figures."""
    entry = history_of(points(1), accepted=True).accepted
    assert entry is not None
    store = _InMemory({key: points(5) for key in ("a", "b", "c")})
    histories = series_histories(store, ["a", "b", "c"], {"a": entry, "b": replace_entry(entry, removed=True)})
    assert [history.accepted for history in histories] == [entry, None, None]
