"""The figures of 200 series with 5000 checks each are read, and searched for changes, while one waits for a page."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pytest_quant.history import SeriesFigures, open_store
from pytest_quant.history.trends import find_changes_in
from tests.benchmarks.limits import at_most
from tests.benchmarks.wide_history import POINTS, SERIES, fill

MAX_READ_S, MAX_CHANGES_S = 2.0, 1.0
TRIALS = 3
YARDSTICK_S = 0.25
"""Seconds of the yardstick where the limits hold; elsewhere, or beside others, they grow with it."""


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def wide(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """The place of the large history, and the keys of its series."""
    place = str(tmp_path_factory.mktemp("wide") / "history.db")
    if request.param == "postgresql":
        place = request.getfixturevalue("postgres_url")
    return place, fill(place)


def _yardstick() -> None:
    """Do what reading a row does: make objects and look at them."""
    rows = [(number, float(number), str(number)) for number in range(300_000)]
    for column in zip(*rows, strict=True):
        assert len(set(column)) == len(rows)


def _seconds(work: Callable[[], object]) -> float:
    """Return the seconds of the fastest of some trials, less what the machine was slower by meanwhile."""
    found: list[float] = []
    yardstick: list[float] = []
    for _ in range(TRIALS):
        for timed, times in ((work, found), (_yardstick, yardstick)):
            started = time.perf_counter()
            timed()
            times.append(time.perf_counter() - started)
    return min(found) / max(1.0, min(yardstick) / YARDSTICK_S)


def test_a_page_is_read_and_searched_at_once(wide: tuple[str, list[str]], show: Callable[[str], None]) -> None:
    """A million checks, alike in SQLite and PostgreSQL; one series in ten became slower, and two lost a point."""
    place, keys = wide
    store = open_store(place)
    figures: list[SeriesFigures] = []

    def read() -> None:
        figures[:] = store.figures(keys)

    def search() -> int:
        return sum(bool(find_changes_in(one, family=len(keys))) for one in figures)

    read_s, search_s = _seconds(read), _seconds(search)
    kind = "PostgreSQL" if "://" in place else "SQLite"
    show(f"{kind}: {SERIES} series of {POINTS} checks: read in {read_s:.2f} s, searched in {search_s:.2f} s")
    assert [one.n for one in figures] == [POINTS] * SERIES
    assert search() >= SERIES // 10 + SERIES // 5
    at_most(read_s, MAX_READ_S, "seconds of reading")
    at_most(search_s, MAX_CHANGES_S, "seconds of searching")
