"""The figures of many series at once are those of their points, alike on SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from pytest_quant.errors import HistoryError
from pytest_quant.history import Point, SeriesFigures, Texts, open_store, read_figures
from pytest_quant.history.store import Store
from pytest_quant.record import Record, Run
from pytest_quant.result import Environment
from tests.unit.record.examples import ACCURACY, LATENCY, RUN, a_check, a_pass, a_record, unavailable

_DYNAMIC = a_check(scheme="dynamic")


def _run(day: int, **changed: object) -> Run:
    started = f"2026-02-{day:02}T00:00:00+00:00"
    return replace(RUN, id=f"run-{day:02}", started_at=started, **({"commit": f"c{day}"} | changed))  # type: ignore[arg-type]


def _of_another_metric() -> Record:
    return a_record(accuracy=replace(ACCURACY, metric="margin", unit="logit", better="lower", drop_ci=None))


@pytest.fixture
def store(history_url: str) -> Store:
    """Five runs of up to three series, not added in the order of time; one of another machine, branch and metric."""
    elsewhere = Environment({"cpu": "Other"}, {})
    store = open_store(history_url)
    store.append_many(
        [
            (_run(4, branch="topic", dirty=True), [a_pass(), a_record(_DYNAMIC, latency=None)]),
            (_run(1), [a_record(), unavailable(), a_record(_DYNAMIC)]),
            (_run(5, environment=elsewhere), [_of_another_metric()]),
            (_run(2, commit=None, branch=None), [a_pass(), a_pass()]),
            (_run(3), [unavailable()]),
        ]
    )
    return store


def _keys(store: Store) -> list[str]:
    return [one.key for one in store.series()]


def _same(found: SeriesFigures, points: list[Point]) -> None:
    """Check each column against the field of that name of the points."""
    assert found.n == len(points)
    for field in fields(SeriesFigures):
        if field.name in ("key", "scales"):
            continue
        column = getattr(found, field.name)
        expected = [getattr(point, field.name) for point in points]
        if isinstance(column, Texts):
            assert column.each() == expected, field.name
        else:
            none_as_nan = [np.nan if value is None else value for value in expected]
            np.testing.assert_array_equal(column, none_as_nan, field.name)
    for point in points:
        assert found.scales[point.version] == (point.unit, point.better)


@pytest.mark.parametrize(
    "chosen", [{}, {"branch": "main"}, {"since": "2026-02-02"}, {"limit": 2}, {"limit": 1, "branch": "main"}]
)
def test_the_figures_of_a_series_are_those_of_its_points(store: Store, chosen: dict[str, object]) -> None:
    """In the same order, whether all or some are asked for; what was not measured is NaN."""
    keys = _keys(store)
    assert len(keys) == 4
    for asked in (keys, keys[::-1], keys[:1]):
        found = store.figures(asked, **chosen)  # type: ignore[arg-type]
        assert [one.key for one in found] == asked
        for one in found:
            _same(one, store.points(one.key, **chosen))  # type: ignore[arg-type]


def test_few_of_many_series_are_found_alike(store: Store) -> None:
    """They are read through the index, and not by going through all checks."""
    checks = [replace(a_check(), nodeid=f"t.py::t{number}", series_nodeid=f"t.py::t{number}") for number in range(20)]
    store.append(_run(6), [a_record(check) for check in checks])
    key = a_record().series
    for asked in ([key], [key, a_record(_DYNAMIC).series], _keys(store)[:12]):
        for one in store.figures(asked):
            _same(one, store.points(one.key))


def test_an_unknown_series_has_no_points(store: Store) -> None:
    """It is in its place, beside others; an empty history has none at all."""
    nothing, known = store.figures(["no such key", a_record().series])
    assert (nothing.n, nothing.scales, nothing.status.each()) == (0, {}, [])
    assert known.n == len(store.points(known.key))
    assert store.figures([]) == []


def test_an_empty_history_has_no_figures(history_url: str) -> None:
    """Nor a branch without runs."""
    store = open_store(history_url)
    assert [one.n for one in store.figures([a_record().series])] == [0]
    store.append(RUN, [a_record()])
    assert [one.n for one in store.figures([a_record().series], branch="no such branch")] == [0]


def test_more_rows_than_are_read_at_once(history_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their texts have the same numbers in each part."""
    monkeypatch.setattr("pytest_quant.history.read_figures._ROWS_AT_ONCE", 3)
    store = open_store(history_url)
    machines = [Environment({"cpu": f"CPU {number}"}, {}) for number in range(5)]
    store.append_many(
        (_run(1 + day, environment=machines[day % 5]), [a_record(), a_record(_DYNAMIC)]) for day in range(20)
    )
    for one in store.figures(_keys(store)):
        _same(one, store.points(one.key))
        assert len(set(one.identity.each())) == 5


def test_a_run_that_is_added_meanwhile_is_left_out(history_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read is of one moment, or of runs that were there at its beginning."""
    store = open_store(history_url)
    store.append(_run(1), [a_record()])
    query_of, added = read_figures._query, []

    def query_later(*arguments: Any) -> str:
        added.append(open_store(history_url).append(_run(2), [a_record()]))
        return query_of(*arguments)

    monkeypatch.setattr(read_figures, "_query", query_later)
    (found,) = store.figures([a_record().series])
    assert (added, found.n, found.commit.each()) == ([True], 1, ["c1"])


def test_an_error_of_the_driver_is_one_of_the_history(history_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a damaged page, that is met after rows were read."""
    store = open_store(history_url)
    store.append(_run(1), [a_record()])
    monkeypatch.setattr(read_figures, "_query", lambda *_: "SELECT one FROM nowhere")
    with pytest.raises(HistoryError, match=r"(?s)cannot be read.*nowhere"):
        store.figures([a_record().series])


def test_a_latency_without_an_interval_has_none(history_url: str) -> None:
    """Beside its figure."""
    store = open_store(history_url)
    store.append(RUN, [a_record(latency=replace(LATENCY, percentile_bounds_ms=()))])
    (found,) = store.figures([a_record().series])
    assert found.candidate_p50_ms.tolist() == [LATENCY.candidate_p50_ms]
    assert np.isnan([*found.p50_low_ms, *found.p50_high_ms]).all()
