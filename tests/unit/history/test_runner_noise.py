"""The noise between sessions here comes from its default, the self-test and the nulls of ordinary runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.history import open_store
from pytest_quant.history.prune import prune
from pytest_quant.history.runner_noise import DEFAULT, session_noise
from pytest_quant.history.selftests import keep_selftest
from pytest_quant.result import Environment
from pytest_quant.spec import UNMEASURED
from tests.unit.history.noisy import IDENTITY, a_kind, a_selftest, run_number, with_null

SD = 0.015


def _nulls(place: str, count: int, first: int = 0, sd: float = SD) -> None:
    logs = np.random.default_rng(first).normal(0.0, sd, count)
    runs = [(run_number(first + index), [with_null(float(one), seed=index)]) for index, one in enumerate(logs)]
    open_store(place).append_many(runs)


def test_without_a_history_it_is_the_default(tmp_path: Path) -> None:
    """And none is created."""
    assert session_noise(tmp_path / "history.db", IDENTITY, "cpu") == DEFAULT
    assert DEFAULT.sessions == UNMEASURED
    assert DEFAULT.source == "the default of a runner that nobody measured"
    assert list(tmp_path.iterdir()) == []


def test_nulls_of_ordinary_runs_measure_it(history_url: str) -> None:
    """150 nulls of sessions that differ by 1.5 % are known within 15 %, whatever the default says.

    They are of other models, and so count for no more than 20 of the model's own.
    """
    _nulls(history_url, 150)
    found = session_noise(history_url, IDENTITY, "cpu")
    assert found.sessions.sd == pytest.approx(SD, rel=0.15)
    assert found.nulls == 150
    assert found.sessions.freedom == 20.0
    assert found.source == "the nulls of 150 earlier checks"


def test_a_few_nulls_move_it_a_little(history_url: str) -> None:
    """The default is worth four of them: Smyth's mean of the variances."""
    open_store(history_url).append(run_number(0), [with_null(0.02, round_sd=1e-9)])
    found = session_noise(history_url, IDENTITY, "cpu")
    assert found.sessions.sd**2 == pytest.approx((4 * UNMEASURED.sd**2 + 0.02**2) / 5, rel=0.01)


def test_a_selftest_counts_and_later_nulls_refresh_it(history_url: str) -> None:
    """Nulls of before it are of another time."""
    _nulls(history_url, 20, sd=0.05)
    draws = tuple((float(one), 0.0001) for one in np.random.default_rng(5).normal(0.0, 0.004, 100))
    keep_selftest(history_url, a_selftest(a_kind(draws=draws), measured_at=run_number(30).started_at))
    measured = session_noise(history_url, IDENTITY, "cpu")
    assert measured.nulls == 0
    assert measured.sessions.sd == pytest.approx(0.004, rel=0.15)
    assert measured.source == "the self-test of 2026-02-02"
    _nulls(history_url, 100, first=40, sd=0.02)
    refreshed = session_noise(history_url, IDENTITY, "cpu")
    assert refreshed.nulls == 100
    assert refreshed.sessions.sd == pytest.approx(np.sqrt((0.004**2 + 0.02**2) / 2), rel=0.2)
    assert refreshed.source == "the self-test of 2026-02-02 and the nulls of 100 earlier checks"


def test_other_machines_and_devices_do_not_count(history_url: str) -> None:
    """A run on another CPU, and a check on a GPU of this one."""
    other = Environment(IDENTITY | {"cpu": "Another CPU"}, {})
    gpu = replace(with_null(0.1), backend="ort-cuda")
    gone = replace(with_null(0.1), backend="of-a-package-that-is-gone")
    open_store(history_url).append_many(
        [(run_number(0, environment=other), [with_null(0.1)]), (run_number(1), [gpu, gone])]
    )
    assert session_noise(history_url, IDENTITY, "cpu") == DEFAULT


def test_rounds_that_were_pruned_or_are_few_tell_nothing(history_url: str) -> None:
    """What is left is the default."""
    open_store(history_url).append_many(
        [(run_number(0), [with_null(0.1)]), (run_number(1), [with_null(0.1, rounds=7)])]
    )
    prune(history_url, before=None, keep_runs=1)
    assert session_noise(history_url, IDENTITY, "cpu") == DEFAULT


def test_a_second_measurement_is_a_draw_of_its_own(history_url: str) -> None:
    """Its sessions were fresh."""
    record = with_null(0.01)
    assert record.latency is not None
    twice = replace(record, latency=replace(record.latency, repeat=with_null(-0.01).latency))
    open_store(history_url).append(run_number(0), [twice])
    assert session_noise(history_url, IDENTITY, "cpu").nulls == 2
