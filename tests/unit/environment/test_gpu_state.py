"""Clocks, memory and energy of a GPU, on machines with and without one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.environment.gpu_state import GpuState, clock_notes, gpu_state

STEADY = GpuState(sm_mhz=1980, memory_mhz=2619, throttled_by=(), used_mb=100.0, energy_mj=1.0)


def test_a_steady_device_has_no_notes() -> None:
    """The same clocks before and after, held down by nothing."""
    assert clock_notes(STEADY, replace(STEADY, used_mb=900.0, energy_mj=7.0)) == ()


def test_a_device_that_slows_down_is_told() -> None:
    """Both clocks and the reason stand in the notes, each reason once."""
    slow = replace(STEADY, sm_mhz=1200, throttled_by=("power limit",))
    assert clock_notes(slow, slow) == ("GPU held down by power limit",)
    assert clock_notes(STEADY, slow) == ("GPU held down by power limit", "GPU clock moved from 1980 to 1200 MHz")


@pytest.mark.parametrize("device", ["cpu", "npu:0", "cuda:99"])
def test_what_is_no_gpu_here_has_no_state(device: str) -> None:
    """Another kind of device, and an index that is not there, are not measured."""
    assert gpu_state(device) is None
