"""The real clocks go on whatever tests put in the place of those of Python."""

from __future__ import annotations

import datetime
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from freezegun import freeze_time

from pytest_quant import clocks
from pytest_quant.measure.interleave import time_block


@contextmanager
def _frozen() -> Iterator[None]:
    with freeze_time("2020-01-02 03:04:05"):
        yield


@contextmanager
def _ticking() -> Iterator[None]:
    with freeze_time("2020-01-02 03:04:05", auto_tick_seconds=15):
        yield


@contextmanager
def _patched() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("perf_counter", "perf_counter_ns", "monotonic", "time", "time_ns"):
            patch.setattr(time, name, lambda: 5)
        patch.setattr(datetime, "datetime", None)
        yield


REPLACING = pytest.mark.parametrize("replacing", [_frozen, _ticking, _patched])


def _spin() -> None:
    sum(range(2000))


@REPLACING
def test_what_is_timed_takes_real_time(replacing: Callable[[], AbstractContextManager[None]]) -> None:
    """Between a block that stands still and runs of 15 s each: some microseconds."""
    with replacing():
        block = time_block(_spin, 5, clocks.REAL.perf_counter_ns)
    assert all(1_000 < run_ns < 1e9 for run_ns in block.runs_ns)


@REPLACING
def test_the_time_of_day_is_real(replacing: Callable[[], AbstractContextManager[None]]) -> None:
    """It is that of the system, also for what compares it with the times of files."""
    before = datetime.datetime.now(datetime.UTC)
    with replacing():
        told = clocks.now()
    assert abs(told - before) < datetime.timedelta(minutes=1)
    assert told.tzinfo is not None


def test_the_plugin_holds_the_clocks_before_any_test() -> None:
    """A module that the first check loads, under a clock that a fixture holds already, has the real one."""
    code = (
        "import pytest_quant.plugin, time\n"
        "from freezegun import freeze_time\n"
        "freeze_time('2020-01-02').start()\n"
        "from pytest_quant.measure.interleave import Rounds\n"
        "from pytest_quant.record.record import now\n"
        "clock = Rounds.__init__.__defaults__[0]\n"
        "print(clock() != clock(), time.time() < 1.6e9 < now().timestamp())"
    )
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "True"], done.stderr
