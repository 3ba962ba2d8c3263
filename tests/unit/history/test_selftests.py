"""Self-tests are kept by the identity of the machine; with the nulls of ordinary runs they tell its noise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine, text

from pytest_quant.errors import HistoryError
from pytest_quant.history import open_store
from pytest_quant.history.selftests import keep_selftest, newest_selftest, null_draws, session_noise
from pytest_quant.history.writing import prune
from pytest_quant.result import Environment
from pytest_quant.spec import UNMEASURED
from tests.unit.history.noisy import IDENTITY, a_kind, a_selftest, run_number, with_null
from tests.unit.record.examples import with_latency


def test_what_was_kept_is_found(history_url: str) -> None:
    """Every figure of it, in either database."""
    selftest = a_selftest(a_kind(draws=((0.004, 0.001), (-0.006, 0.002))))
    keep_selftest(history_url, selftest)
    assert newest_selftest(history_url, IDENTITY, "cpu") == selftest


def test_the_newest_one_counts(history_url: str) -> None:
    """By the time of its measurement, in whatever order they were added and in whatever zone they were written."""
    old = a_selftest(a_kind(one_pct=9.0), measured_at="2026-03-01T12:00:00+00:00")
    new = a_selftest(a_kind(one_pct=2.0), measured_at="2026-03-01T12:30:00-01:00")
    for each in (new, old):
        keep_selftest(history_url, each)
    assert newest_selftest(history_url, IDENTITY, "cpu") == new


def test_another_machine_or_device_has_none(history_url: str) -> None:
    """Its noise says nothing about this one."""
    keep_selftest(history_url, a_selftest(identity=IDENTITY | {"cores": "64"}))
    keep_selftest(history_url, a_selftest(device="cuda:0"))
    assert newest_selftest(history_url, IDENTITY, "cpu") is None
    assert newest_selftest(history_url, IDENTITY, "cuda:0") is not None


def test_a_damaged_one_is_named(history_url: str) -> None:
    """As that, with its field."""
    keep_selftest(history_url, a_selftest())
    with create_engine(history_url).begin() as connection:
        connection.execute(text("UPDATE quant_selftests SET document = '{\"backend\": 3}'"))
    with pytest.raises(HistoryError, match=r"(?s)the self-test: .*backend"):
        newest_selftest(history_url, IDENTITY, "cpu")


SD = 0.015


def _nulls(place: str, count: int, first: int = 0, sd: float = SD) -> None:
    logs = np.random.default_rng(first).normal(0.0, sd, count)
    runs = [(run_number(first + index), [with_null(float(log), seed=index)]) for index, log in enumerate(logs)]
    open_store(place).append_many(runs)


def test_without_a_history_it_is_the_default(tmp_path: Path) -> None:
    """And none is created."""
    assert session_noise(tmp_path / "history.db", IDENTITY, "cpu") == UNMEASURED
    assert list(tmp_path.iterdir()) == []


def test_nulls_of_ordinary_runs_measure_it(history_url: str) -> None:
    """150 nulls of sessions that differ by 1.5 % are known within 15 %, whatever the default says.

    They are of other models, and so count for no more than 20 of the model's own.
    """
    _nulls(history_url, 150)
    result = session_noise(history_url, IDENTITY, "cpu")
    assert result.sd == pytest.approx(SD, rel=0.15)
    assert result.freedom == 20.0


def test_a_selftest_counts_and_later_nulls_refresh_it(history_url: str) -> None:
    """Nulls of before it are of another time."""
    _nulls(history_url, 20, sd=0.05)
    draws = tuple((float(each), 0.0001) for each in np.random.default_rng(5).normal(0.0, 0.004, 100))
    keep_selftest(history_url, a_selftest(a_kind(draws=draws), measured_at=run_number(30).started_at))
    measured = session_noise(history_url, IDENTITY, "cpu")
    assert measured.sd == pytest.approx(0.004, rel=0.15)
    _nulls(history_url, 100, first=40, sd=0.02)
    refreshed = session_noise(history_url, IDENTITY, "cpu")
    assert refreshed.sd == pytest.approx(np.sqrt((0.004**2 + 0.02**2) / 2), rel=0.2)


def test_other_machines_and_devices_do_not_count(history_url: str) -> None:
    """A run on another CPU, and a check on a GPU of this one."""
    other = Environment(IDENTITY | {"cpu": "Another CPU"}, {})
    gpu = replace(with_null(0.1), backend="ort-cuda")
    gone = replace(with_null(0.1), backend="of-a-package-that-is-gone")
    open_store(history_url).append_many(
        [(run_number(0, environment=other), [with_null(0.1)]), (run_number(1), [gpu, gone])]
    )
    assert session_noise(history_url, IDENTITY, "cpu") == UNMEASURED


def test_rounds_that_were_pruned_or_are_few_tell_nothing(history_url: str) -> None:
    """What is left is the default."""
    open_store(history_url).append_many(
        [(run_number(0), [with_null(0.1)]), (run_number(1), [with_null(0.1, rounds=7)])]
    )
    prune(open_store(history_url), keep_runs=1)
    assert session_noise(history_url, IDENTITY, "cpu") == UNMEASURED


def test_a_second_measurement_is_a_draw_of_its_own(history_url: str) -> None:
    """Its sessions were fresh."""
    twice = with_latency(with_null(0.01), repeat=with_null(-0.01).latency)
    open_store(history_url).append(run_number(0), [twice])
    assert len(list(null_draws(open_store(history_url).checks(), IDENTITY, "cpu"))) == 2
