"""The process that frees locked clocks in the place of one that died, on a stub of the driver."""

from __future__ import annotations

import psutil
import pytest

from pytest_quant.environment.clock_guard import ClockGuard
from pytest_quant.environment.nvml import opened_nvml
from tests.support.nvml_stub import NvmlStub, StubCard, uuid_of


@pytest.fixture
def locked(nvml_stub: NvmlStub) -> NvmlStub:
    """A machine whose second card has locked clocks, which only that one may."""
    nvml_stub.play(StubCard(), StubCard())
    with opened_nvml() as nvml:
        assert nvml is not None
        for place in range(2):
            nvml.nvmlDeviceSetGpuLockedClocks(nvml.nvmlDeviceGetHandleByIndex(place), 1000, 1000)
    return nvml_stub


def test_a_dismissed_guard_frees_nothing(locked: NvmlStub) -> None:
    """Whoever locks next, when this one is done, is not disturbed; it has ended by then."""
    guard = ClockGuard(uuid_of(1))
    guard.dismiss()
    assert not psutil.pid_exists(guard.pid)
    assert (locked.locked(0), locked.locked(1)) == ((1000, 1000), (1000, 1000))


def test_a_guard_that_is_left_alone_frees_its_card(locked: NvmlStub) -> None:
    """When the other end of its pipe is closed, as the end of a process does."""
    guard = ClockGuard(uuid_of(1))
    assert guard._process.stdin is not None
    guard._process.stdin.close()
    assert guard._process.wait(timeout=60) == 0
    assert (locked.locked(0), locked.locked(1)) == ((1000, 1000), None)
