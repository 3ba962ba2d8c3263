"""What tests cost, out of records in a database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.history import open_store
from pytest_quant.history.durations import durations_s
from pytest_quant.history.rows import unpack
from pytest_quant.history.store import Store
from pytest_quant.record import Record
from pytest_quant.result import Cost, Environment
from tests.unit.record.examples import NODEID, RUN, a_pass, series_of, unavailable

OTHER = Environment({"cpu": "Another CPU"}, {})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty history."""
    return open_store(tmp_path / "history.db")


def _record(*seconds: float, series: str = "s", nodeid: str = NODEID) -> Record:
    return replace(a_pass(), series=series_of(series), nodeid=nodeid, cost=Cost(*seconds))


def _add(store: Store, day: int, *records: Record, environment: Environment = RUN.environment) -> None:
    started_at = f"2026-03-{day:02}T00:00:00+00:00"
    store.append(replace(RUN, id=f"run-{day:02}", started_at=started_at, environment=environment), records)


def test_the_median_of_the_newest_runs_counts(store: Store) -> None:
    """The build, the evaluation and the timing together; older runs than the last five are not looked at."""
    for day in range(1, 10):
        _add(store, day, _record(1.0, 2.0, float(day)))
    assert durations_s(store) == {NODEID: 10.0}
    _add(store, 10, _record(0.0, 500.0, 0.0))
    assert durations_s(store) == {NODEID: 11.0}


def test_runs_on_another_kind_of_machine_do_not_count(store: Store) -> None:
    """The newest run says which one it is."""
    for day in (1, 2, 4):
        _add(store, day, _record(0.0, 9.0, 0.0), environment=OTHER)
    _add(store, 5, _record(0.0, 2.0, 1.0))
    assert durations_s(store) == {NODEID: 3.0}


def test_checks_of_one_run_add_up_and_those_of_two_do_not(store: Store) -> None:
    """A test whose mark has changed has another series from then on."""
    _add(store, 1, _record(0.0, 4.0, 0.0, series="old"))
    _add(store, 2, _record(0.0, 1.0, 0.0, series="new"), _record(0.0, 5.0, 0.0, series="both"))
    assert durations_s(store) == {NODEID: 5.0}


def test_what_was_not_measured_costs_nothing_known(store: Store) -> None:
    """No test costs 0: those would all go to one shard."""
    _add(store, 1, unavailable(), replace(a_pass(), nodeid="old"), _record(0.0, 0.0, 0.0, nodeid="quick", series="q"))
    assert durations_s(store) == {"quick": 0.001}


def test_only_the_newest_records_are_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 records of two series ten are decoded."""
    for day in range(1, 21):
        _add(store, day, _record(0.0, 1.0, 0.0), _record(0.0, 1.0, 0.0, series="other", nodeid="other"))
    decoded: list[str] = []

    def counting(packed: bytes, where: str) -> Record:
        decoded.append(where)
        return unpack(packed, where)

    monkeypatch.setattr("pytest_quant.history.store.unpack", counting)
    assert durations_s(store) == {NODEID: 1.0, "other": 1.0}
    assert len(decoded) == 10
