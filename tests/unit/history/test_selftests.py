"""Self-tests are kept by the identity of the machine, and the newest one counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from pytest_quant.errors import HistoryError
from pytest_quant.history import open_store
from pytest_quant.history.exchange.stream import lines_of, read_runs
from pytest_quant.history.prune import prune
from pytest_quant.history.selftests import keep_selftest, newest_selftest
from tests.unit.history.noisy import IDENTITY, a_kind, a_selftest
from tests.unit.record.examples import RUN, a_record


def test_what_was_kept_is_found(history_url: str) -> None:
    """Every figure of it, in either database."""
    kept = a_selftest(a_kind(draws=((0.004, 0.001), (-0.006, 0.002))))
    keep_selftest(history_url, kept)
    assert newest_selftest(history_url, IDENTITY, "cpu") == kept


def test_the_newest_one_counts(history_url: str) -> None:
    """By the time of its measurement, in whatever order they were added and in whatever zone they were written."""
    old = a_selftest(a_kind(one_pct=9.0), measured_at="2026-03-01T12:00:00+00:00")
    new = a_selftest(a_kind(one_pct=2.0), measured_at="2026-03-01T12:30:00-01:00")
    for one in (new, old):
        keep_selftest(history_url, one)
    assert newest_selftest(history_url, IDENTITY, "cpu") == new


def test_another_machine_or_device_has_none(history_url: str) -> None:
    """Its noise says nothing about this one."""
    keep_selftest(history_url, a_selftest(identity=IDENTITY | {"cores": "64"}))
    keep_selftest(history_url, a_selftest(device="cuda:0"))
    assert newest_selftest(history_url, IDENTITY, "cpu") is None
    assert newest_selftest(history_url, IDENTITY, "cuda:0") is not None


def test_no_history_is_created_to_look_into_it(tmp_path: Path) -> None:
    """A question leaves no file."""
    assert newest_selftest(tmp_path / "history.db", IDENTITY, "cpu") is None
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_one_is_named(history_url: str) -> None:
    """With what to do."""
    keep_selftest(history_url, a_selftest())
    with create_engine(history_url).begin() as connection:
        connection.execute(text("UPDATE quant_selftests SET document = '{\"backend\": 3}'"))
    with pytest.raises(HistoryError, match="self-test in the history") as caught:
        newest_selftest(history_url, IDENTITY, "cpu")
    assert "measure this runner again" in str(caught.value)


def test_pruning_leaves_it(history_url: str) -> None:
    """It is small, and no record."""
    open_store(history_url).append(RUN, [a_record()])
    keep_selftest(history_url, a_selftest())
    prune(history_url, keep_runs=0)
    assert newest_selftest(history_url, IDENTITY, "cpu") == a_selftest()


def test_moving_a_history_leaves_it_where_it_was_measured(history_url: str, tmp_path: Path) -> None:
    """The runs go, and what one machine can hold stays: the other side has machines of its own."""
    store = open_store(history_url)
    store.append(RUN, [a_record()])
    keep_selftest(history_url, a_selftest())
    with (tmp_path / "moved.jsonl").open("wb") as stream:
        stream.writelines(lines_of(store.each_run()))
    there = tmp_path / "there.db"
    open_store(there).append_many(read_runs(tmp_path / "moved.jsonl"))
    assert [one.run.id for one in open_store(there).runs()] == [RUN.id]
    assert newest_selftest(there, IDENTITY, "cpu") is None
