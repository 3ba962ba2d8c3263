"""What a history is asked, alike on SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from pytest_quant.errors import UsageError
from pytest_quant.history import open_store
from pytest_quant.history.rows import identity_of, version_of
from pytest_quant.history.store import Store
from pytest_quant.history.summaries import CheckSummary, SeriesSummary
from pytest_quant.record import Record, Run
from pytest_quant.record.figures import figures
from pytest_quant.result import Status
from tests.unit.record.examples import RUN, a_check, a_pass, a_record, series_of, unavailable

_SERIES = a_record().series
_HOSTILE = "t.py::t['\"; DROP TABLE quant_runs; --\x00\x1b[31m\udcff\u202e\N{SNOWMAN}%_\\]"


def _run(day: int, branch: str | None = "main", commit: str | None = None, dirty: bool = False) -> Run:
    started = f"2026-02-{day:02}T00:00:00+00:00"
    return replace(RUN, id=f"202602{day:02}-x", started_at=started, branch=branch, commit=commit, dirty=dirty)


_RUNS = [
    (_run(3, "feature", "c3"), [a_pass()]),
    (_run(1, "main", "c1"), [a_record(), unavailable()]),
    (_run(4, None, "c3", dirty=True), [a_record()]),
    (_run(2, "main", "c1"), [a_pass(), unavailable()]),
]


@pytest.fixture
def store(history_url: str) -> Store:
    """Four runs, not added in the order of time."""
    store = open_store(history_url)
    assert store.append_many(_RUNS) == (4, 0)
    return store


def _days(store: Store, branch: str | None = None, since: str | None = None) -> list[str]:
    return [stored.run.id[6:8] for stored in store.runs(branch=branch, since=since)]


def test_runs_are_chosen_by_branch_and_time(store: Store) -> None:
    """Newest first; a time may have a zone, a date has none and means UTC."""
    assert _days(store) == ["04", "03", "02", "01"]
    assert _days(store, branch="main") == ["02", "01"]
    assert _days(store, since="2026-02-03") == ["04", "03"]
    assert _days(store, since="2026-02-03T01:00:00+02:00") == ["04", "03"]
    assert _days(store, since="2026-02-03T00:00:01+00:00") == ["04"]
    assert _days(store, branch="main", since="2026-02-02") == ["02"]
    assert [stored.counts for stored in store.runs(limit=2, branch="main")] == [
        {"PASS": 1, "UNAVAILABLE": 1},
        {"FAIL": 1, "UNAVAILABLE": 1},
    ]


def test_a_run_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    """When only one begins so; a whole id is found though a longer one begins with it."""
    assert store.run("20260203").run == _run(3, "feature", "c3")
    store.append(replace(_run(3), id="20260203-x-longer"), [])
    assert store.run("20260203-x").counts == {"PASS": 1}


@pytest.mark.parametrize(("beginning", "ids"), [("202602", "20260204-x, 20260203-x"), ("20260233-x", "20260203-x")])
def test_a_run_that_is_not_told_apart_is_an_error(store: Store, beginning: str, ids: str) -> None:
    """Several or none: the nearest are named. A character of a pattern is no pattern."""
    for text in (beginning, "%", "_"):
        with pytest.raises(UsageError):
            store.run(text)
    with pytest.raises(UsageError) as caught:
        store.run(beginning)
    assert ids in (caught.value.allowed or "")


def test_commits_with_a_run_of_exactly_their_code(store: Store) -> None:
    """A run with changed files is none of its commit."""
    assert store.commits(["c1", "c2", "c3", "c4"]) == {"c1", "c3"}
    store.append(_run(5, commit="c5", dirty=True), [a_pass()])
    assert store.commits(["c5", "c4"]) == set()
    assert store.commits([]) == set()


def test_runs_are_found_by_their_tree(store: Store) -> None:
    """Beside those of the commit, and once where a run is both."""
    store.append(replace(_run(6, commit="c6"), tree="t6"), [a_pass()])
    store.append(replace(_run(7, commit="c7"), tree="t6"), [a_pass()])
    assert store.commits(["t6", "c1", "t7"]) == {"t6", "c1"}
    assert [check.run.id for check in store.launches("c7", "t6")] == [_run(6).id, _run(7).id]
    assert [check.run.id for check in store.launches("c7")] == [_run(7).id]


def test_launches_of_a_commit(store: Store) -> None:
    """Every record of its runs without changed files, oldest first, each run in its order."""
    result = [(check.run.id, check.record) for check in store.launches("c1")]
    first, second = _run(1).id, _run(2).id
    assert result == [(first, a_record()), (first, unavailable()), (second, a_pass()), (second, unavailable())]
    assert [check.run.id for check in store.launches("c3")] == [_run(3).id]
    assert store.launches("c9") == []


def test_the_launches_of_one_series_and_the_summaries_of_all_are_those_of_clean_runs(store: Store) -> None:
    """Of several commits at once, oldest first."""
    launches = store.launches("c3", "c1", "c9", series=_SERIES)
    assert [(check.run.id, check.record) for check in launches] == [
        (_run(1).id, a_record()),
        (_run(2).id, a_pass()),
        (_run(3).id, a_pass()),
    ]
    points = store.points_of(["c1"])
    assert [(point.run_id, point.series) for point in points] == [
        (_run(day).id, series) for day in (1, 2) for series in (_SERIES, unavailable().series)
    ]
    assert [point for point in points if point.series == _SERIES] == store.points(_SERIES)[:2]
    assert (store.points_of([]), store.launches(series=_SERIES)) == ([], [])


def test_each_series_is_listed_once(store: Store) -> None:
    """With how often it was checked, and when last."""
    latest, second = "2026-02-04T00:00:00+00:00", "2026-02-02T00:00:00+00:00"
    assert store.series() == [
        SeriesSummary(_SERIES, 4, latest),
        SeriesSummary(unavailable().series, 2, second),
    ]


def test_a_point_is_the_summary_of_its_record(store: Store) -> None:
    """Each figure is the one in the record."""
    (point,) = store.points(_SERIES, limit=1, branch="feature")
    run, record = _run(3, "feature", "c3"), a_pass()
    values = asdict(point)
    assert point.status is record.status
    assert [values[name] for name in ("run_id", "started_at", "commit", "branch", "dirty", "series", "isa")] == [
        run.id, run.started_at, "c3", "feature", False, _SERIES, record.isa
    ]  # fmt: skip
    assert (point.version, point.identity) == (version_of(record), identity_of(run, record))
    measured = {name: figure for name, figure in figures(record).items() if name in values and name != "status"}
    assert len(measured) == 17
    assert {name: values[name] for name in measured} == measured
    assert (point.p50_low_ms, point.p50_high_ms) == (0.2301, 0.2389)


def test_points_are_chosen_by_branch_time_and_number(store: Store) -> None:
    """Oldest first; a limit keeps the newest. What was not measured is ``None``."""

    def days(points: list[CheckSummary]) -> list[str]:
        return [point.run_id[6:8] for point in points]

    assert days(store.points(_SERIES)) == ["01", "02", "03", "04"]
    assert days(store.points(_SERIES, limit=3)) == ["02", "03", "04"]
    assert days(store.points(_SERIES, branch="main", limit=1)) == ["02"]
    assert days(store.points(_SERIES, since="2026-02-03")) == ["03", "04"]
    assert [(point.version, point.n, point.speedup) for point in store.points(unavailable().series)] == [
        ("", None, None)
    ] * 2
    assert store.points(series_of("another")) == []


def test_many_runs_are_added_once_each(store: Store) -> None:
    """Those that are there are counted, and those that come twice in one call."""
    new = (_run(6), [a_pass()])
    assert store.append_many([*_RUNS, new, new]) == (1, 5)
    assert store.append_many(iter([])) == (0, 0)
    assert len(store.runs()) == 5


def test_what_came_before_an_error_is_kept_whole(history_url: str) -> None:
    """A file that breaks off in the middle has given what it gave; no run of it is there in part."""
    store = open_store(history_url)

    def breaking() -> Iterator[tuple[Run, list[Record]]]:
        for number in range(700):
            yield replace(RUN, id=f"{number:04}"), [a_pass()]
        raise EOFError

    with pytest.raises(EOFError):
        store.append_many(breaking())
    runs = store.runs()
    assert 0 < len(runs) < 700
    assert {tuple(stored.counts.items()) for stored in runs} == {(("PASS", 1),)}


def test_hostile_names_are_kept_and_found(history_url: str) -> None:
    """Quotes, escapes, NUL and lone surrogates in a node id, a branch, a commit and the id of a run."""
    run = replace(RUN, id=f"x{_HOSTILE}", branch=_HOSTILE, commit=_HOSTILE)
    record = a_record(replace(a_check(), nodeid=_HOSTILE, series_nodeid=_HOSTILE))
    other = replace(record, series=series_of(f"other{_HOSTILE}"), status=Status.PASS)
    store = open_store(history_url)
    store.append(run, [record, other])
    assert store.append(run, []) is False
    assert store.records(run.id) == [record, other]
    assert len(store.runs(branch=_HOSTILE)) == len(store.points(record.series, branch=_HOSTILE)) == 1
    assert len(store.points(other.series)) == 1
    assert len(store.commits([_HOSTILE])) == 1
    assert len(store.launches(_HOSTILE)) == 2
    assert store.run("x").counts == {"FAIL": 1, "PASS": 1}
    assert all(len(store.points(summary.key)) == 1 for summary in store.series())


def test_runs_of_the_future_and_of_other_zones_sort_by_time(history_url: str) -> None:
    """A runner whose clock is off by years breaks nothing, and a time is what it means, not how it is written."""
    store = open_store(history_url)
    times = ("2199-01-01T00:00:00+00:00", "2026-05-01T01:00:00+02:00", "2026-04-30T23:30:00+00:00", "1970-01-01")
    for index, time in enumerate(times):
        store.append(replace(RUN, id=str(index), started_at=time), [a_pass()])
    assert [stored.run.id for stored in store.runs()] == ["0", "2", "1", "3"]
    assert [point.run_id for point in store.points(_SERIES)] == ["3", "1", "2", "0"]


_QUESTIONS: dict[str, Callable[[Store], object]] = {
    "keys": Store.series_keys,
    "series": lambda store: store.series([_SERIES]),
    "every series": Store.series,
    "run": lambda store: store.run(_run(4).id[:8]),
    "runs": lambda store: store.runs(limit=2),
    "runs of a branch": lambda store: store.runs(limit=2, branch="main"),
    "dirty runs": lambda store: store.dirty_runs("c3"),
    "commits": lambda store: store.commits(["c1", "c2"]),
    "launches": lambda store: store.launches("c1", "c2"),
    "launches of a series": lambda store: store.launches("c1", series=_SERIES),
    "last pass": lambda store: store.last_pass(_SERIES),
    "points": lambda store: store.points(_SERIES, branch="main", limit=2),
    "points of commits": lambda store: store.points_of(["c1", "c2"]),
    "checks": lambda store: store.checks(limit=2),
}


@pytest.mark.parametrize("question", _QUESTIONS)
def test_an_index_answers(tmp_path: Path, question: str) -> None:
    """Nothing goes through all runs, checks or records, and what is asked for the newest alone sorts no others."""
    place = tmp_path / "history.db"
    store = open_store(place)
    asked: list[tuple[str, Any]] = []
    store.append_many(_RUNS)

    def note(_conn: object, _cursor: object, statement: str, parameters: object, _context: object, _many: bool) -> None:
        asked.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        _QUESTIONS[question](store)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    selects = [each for each in asked if each[0].startswith("SELECT")]
    assert selects
    with closing(sqlite3.connect(place)) as connection:
        plans = [connection.execute(f"EXPLAIN QUERY PLAN {select}", values).fetchall() for select, values in selects]
    steps = [row[3] for plan in plans for row in plan]
    newest = ["SCAN quant_runs USING INDEX ix_quant_runs_started_at"] if question in ("runs", "checks") else []
    assert [
        step for step in steps if step.startswith("SCAN quant_") and step not in ("SCAN quant_series", *newest)
    ] == []
    if question in ("last pass", "points"):
        assert "USE TEMP B-TREE FOR ORDER BY" not in steps


def test_a_series_of_removed_runs_is_listed_no_more(store: Store) -> None:
    """Neither by name nor with its points."""
    other, gone = replace(_run(5), id="other"), series_of("other")
    store.append(other, [replace(a_pass(), series=gone)])
    assert gone in store.series_keys()
    store.remove("other")
    assert store.series_keys() == [series.key for series in store.series()]
    assert store.series([gone]) == []


def test_runs_of_uncommitted_changes_are_those_of_one_commit(store: Store) -> None:
    """Newest first; those of a clean tree are left out."""
    store.append(_run(6, commit="c3", dirty=True), [])
    store.append(_run(7, commit="c9", dirty=True), [])
    assert store.dirty_runs("c3") == [_run(6, commit="c3", dirty=True), _run(4, None, "c3", dirty=True)]
    assert store.dirty_runs("c1") == []


def test_the_number_of_queries_does_not_grow(history_url: str) -> None:
    """Two hundred runs are read with as many questions as two."""
    statements: list[str] = []

    def note(conn: object, cursor: object, statement: str, parameters: object, context: object, many: bool) -> None:
        statements.append(statement)

    counts = []
    store = open_store(history_url)
    for number in (2, 200):
        store.append_many((replace(RUN, id=f"{number}-{index}"), [a_pass(), unavailable()]) for index in range(number))
        statements.clear()
        event.listen(Engine, "before_cursor_execute", note)
        try:
            store.runs()
            store.checks()
            store.launches(RUN.commit or "")
            store.points(_SERIES)
            store.series()
            list(store.each_run())
        finally:
            event.remove(Engine, "before_cursor_execute", note)
        counts.append(sum(not statement.startswith("BEGIN") for statement in statements))
    # More than 200 runs are there in the end, which `each_run` reads in two parts.
    assert counts[1] <= counts[0] + 1 <= 10
