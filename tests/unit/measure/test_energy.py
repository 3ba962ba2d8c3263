"""Energy of one run."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.measure.resources import measure_energy


@given(power_w=st.floats(0.1, 700), run_s=st.floats(0.001, 2.0))
def test_energy_is_power_times_the_time_of_a_run(power_w: float, run_s: float) -> None:
    """On a device of constant power every run costs power x time, here in millijoules."""
    now = 0.0

    def run() -> None:
        nonlocal now
        now += run_s

    found = measure_energy(run, "cpu", counter=lambda _: lambda: 1e3 * power_w * now, clock=lambda: now)
    assert found == pytest.approx(1e3 * power_w * run_s)


def test_a_device_that_counts_nothing_is_not_measured() -> None:
    """Neither 0 nor a run is made."""
    calls = count()
    assert measure_energy(lambda: next(calls), "cpu", counter=lambda _: None) is None
    assert next(calls) == 0


def test_a_counter_that_stops_telling_is_not_measured() -> None:
    """A counter that cannot be read at the end gives nothing."""
    assert measure_energy(int, "cpu", counter=lambda _: lambda: None, min_s=0.0) is None


def test_an_unknown_device_is_not_measured() -> None:
    """No counter belongs to a device that is neither a CPU nor a GPU."""
    assert measure_energy(int, "npu:0") is None
