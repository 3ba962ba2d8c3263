"""Energy of one run."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.environment.gpu_state import GpuState
from pytest_quant.measure import resources
from pytest_quant.measure.resources import RaplReading, device_counter, measure_energy


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


@pytest.mark.parametrize(("run_s", "runs"), [(0.1, 5), (0.3, 2), (0.5, 1), (9.0, 1)])
def test_runs_last_half_a_second_at_least(run_s: float, runs: int) -> None:
    """One is made in any case; the counter is read once, after the last."""
    now, made = 0.0, 0

    def run() -> None:
        nonlocal now, made
        now, made = now + run_s, made + 1

    found = measure_energy(run, "cpu", counter=lambda _: lambda: 100.0 * made, clock=lambda: round(now, 6))
    assert (found, made) == (100.0, runs)


def test_the_processor_is_counted_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the packages' counters, in millijoules; ``None`` where they cannot be read, at the start or at the end."""
    readings = [RaplReading((1000, 5000), (10**6, 10**6)), RaplReading((3000, 5500), (10**6, 10**6)), None]
    monkeypatch.setattr(resources, "read_rapl", lambda: readings.pop(0))
    counter = device_counter("cpu")
    assert counter is not None
    assert (counter(), counter()) == (2.5, None)
    readings.append(None)
    assert device_counter("cpu") is None


def test_a_gpu_is_counted_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own counter; ``None`` where the driver has none, or does not tell."""
    state = GpuState(sm_mhz=1, memory_mhz=1, throttled_by=(), used_mb=1.0, energy_mj=40.0)
    silent = replace(state, energy_mj=None)
    states = {"cuda:1": [state, replace(state, energy_mj=65.0), silent, None]}
    monkeypatch.setattr(resources, "gpu_state", lambda device: states[device].pop(0))
    counter = device_counter("cuda:1")
    assert counter is not None
    assert (counter(), counter(), counter()) == (25.0, None, None)
    for first in (silent, None):
        states["cuda:0"] = [first]
        assert device_counter("cuda:0") is None


def test_an_unknown_device_is_not_measured() -> None:
    """No counter belongs to a device that is neither a CPU nor a GPU."""
    assert measure_energy(int, "npu:0") is None
