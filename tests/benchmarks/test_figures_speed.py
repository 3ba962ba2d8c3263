"""The figures of 200 series with 5000 checks each are read and searched for changes, as for a page of all of them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pytest_quant.history import SeriesFigures, open_store
from pytest_quant.history.trends import find_changes, find_changes_in
from tests.benchmarks.limits import at_least
from tests.benchmarks.wide_history import POINTS, SERIES, fill

SOME = 10
FASTER_READ, FASTER_SEARCH = 2.0, 1.2
TRIALS = 3


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def wide(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """The place of the large history, and the keys of its series."""
    place = str(tmp_path_factory.mktemp("wide") / "history.db")
    if request.param == "postgresql":
        place = request.getfixturevalue("postgres_url")
    return place, fill(place)


def _seconds(*works: Callable[[], object]) -> list[float]:
    """Return the processor seconds of the fastest of some trials of each work, which take turns."""
    found: list[list[float]] = [[] for _ in works]
    for _ in range(TRIALS):
        for work, times in zip(works, found, strict=True):
            started = time.process_time()
            work()
            times.append(time.process_time() - started)
    return [min(times) for times in found]


def test_a_page_is_read_and_searched_at_once(wide: tuple[str, list[str]], show: Callable[[str], None]) -> None:
    """A million checks, in far less time than as an object each; three series in ten changed."""
    place, keys = wide
    store = open_store(place)
    figures: list[SeriesFigures] = []

    def read() -> None:
        figures[:] = store.figures(keys)

    def read_points() -> None:
        for key in keys[:SOME]:
            store.points(key)

    def search() -> int:
        return sum(bool(find_changes_in(one, family=SERIES)) for one in figures)

    points = [store.points(key) for key in keys[:SOME]]
    read_s, points_s = _seconds(read, read_points)
    search_s, of_points_s = _seconds(search, lambda: [find_changes(one, family=SERIES) for one in points])
    each = SERIES / SOME
    kind = "PostgreSQL" if "://" in place else "SQLite"
    show(
        f"{kind}: {SERIES} series of {POINTS} checks: read in {read_s:.2f} s of this process, "
        f"searched in {search_s:.2f} s; as objects {points_s * each:.0f} s and {of_points_s * each:.0f} s"
    )
    assert [one.n for one in figures] == [POINTS] * SERIES
    assert search() == 3 * SERIES // 10
    at_least(points_s / SOME / (read_s / SERIES), FASTER_READ, "time of a series as objects to that in columns")
    at_least(of_points_s / SOME / (search_s / SERIES), FASTER_SEARCH, "time of a search of objects to one of columns")
