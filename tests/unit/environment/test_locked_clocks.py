"""Locked clocks, on a stub of the driver that the real nvidia-ml-py runs on."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from pytest_quant.environment import locked_clocks
from pytest_quant.environment.gpu_clocks import clock_reader
from pytest_quant.environment.locked_clocks import ClockLock, ClockLocker, free_clocks
from tests.support.nvml_stub import NO_PERMISSION, NvmlStub, StubCard, StubInstance, uuid_of

BASE = 0xFFFFFF01
"""NVML's symbol for the base clock, see nvml.h."""


def sm_mhz() -> int | None:
    """The SM clock now."""
    with clock_reader("cuda:0") as read:
        return None if read is None else read().sm_mhz


def test_clocks_are_locked_while_the_block_runs(nvml_stub: NvmlStub) -> None:
    """Those of the processors at the base, that of the memory at its highest; both are free after it."""
    nvml_stub.play(StubCard(sm_mhz=2040, base_sm_mhz=1590, max_memory_mhz=6251))
    with ClockLocker(pytest.fail)("cuda:0") as lock:
        assert lock == ClockLock(memory=True)
        assert (nvml_stub.locked(), nvml_stub.locked(of="memory-")) == ((BASE, BASE), (6251, 6251))
        assert sm_mhz() == 1590
    assert (nvml_stub.locked(), nvml_stub.locked(of="memory-")) == (None, None)
    assert sm_mhz() == 2040


def test_memory_that_cannot_be_locked_keeps_nothing_from_being(nvml_stub: NvmlStub) -> None:
    """As on cards before Ampere; the reader is told which clocks are locked."""
    nvml_stub.play(StubCard(lock_memory=None))
    with ClockLocker(pytest.fail)("cuda:0") as lock:
        assert lock == ClockLock(memory=False)
        assert nvml_stub.locked() == (BASE, BASE)
    assert nvml_stub.locked() is None
    assert ClockLock(memory=True).note == (
        "GPU clocks locked: the SM clock at its base, that of the memory at its highest"
    )
    assert ClockLock(memory=False).note == "GPU clocks locked: the SM clock at its base, that of the memory is free"


@pytest.mark.parametrize(
    ("card", "why_not"),
    [
        (StubCard(lock_clocks=NO_PERMISSION), "no permission, which needs root"),
        (StubCard(lock_clocks=None), "this GPU does not support it"),
        (StubCard(lock_clocks=999), "NVML says Unknown Error"),
        (
            StubCard(mig=1, instances=(StubInstance(uuid_of(9, "MIG")),)),
            "a part of a split card (MIG) shares them with its neighbours",
        ),
        (None, "NVML finds no such GPU"),
    ],
)
def test_what_cannot_be_locked_is_said_once(card: StubCard | None, why_not: str, nvml_stub: NvmlStub) -> None:
    """Timing goes on, each time with the reason; clocks that somebody else has locked stay as they are."""
    if card is not None:
        nvml_stub.play(card)
    told: list[str] = []
    locker = ClockLocker(told.append)
    for _ in range(3):
        with locker("cuda:0") as lock:
            assert lock == ClockLock(why_not)
            assert lock.note == f"GPU clocks not locked: {why_not}"
            assert nvml_stub.locked() is None
    assert told == [f"the clocks of cuda:0 cannot be locked: {why_not}; timing goes on without"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_clocks_are_free_after_an_error(error: type[BaseException], nvml_stub: NvmlStub) -> None:
    """SIGTERM is a KeyboardInterrupt too, see `pytest_quant.plugin.shutdown`."""
    nvml_stub.play(StubCard())

    def stop() -> None:
        assert nvml_stub.locked() == (BASE, BASE)
        raise error

    with pytest.raises(error), ClockLocker(pytest.fail)("cuda:0"):
        stop()
    assert nvml_stub.locked() is None


def test_an_interrupt_between_both_locks_frees_the_first(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come at any time."""
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    nvml_stub.play(StubCard())
    monkeypatch.setattr(pynvml, "nvmlDeviceSetMemoryLockedClocks", interrupted)
    with pytest.raises(KeyboardInterrupt), ClockLocker(pytest.fail)("cuda:0"):
        pytest.fail("the block must not begin")
    assert nvml_stub.locked() is None


_KILLED = """
import os, signal, sys
from pytest_quant.environment import locked_clocks

guards = []
made = locked_clocks.ClockGuard

def guard(card):
    guards.append(made(card))
    return guards[-1]

locked_clocks.ClockGuard = guard
with locked_clocks.ClockLocker(print)("cuda:0") as lock:
    print(lock.why_not or "locked", guards[0].pid, flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_clocks_are_free_after_the_process_was_killed(nvml_stub: NvmlStub) -> None:
    """By SIGKILL, which no process can handle; its guard ends when it has freed them."""
    nvml_stub.play(StubCard())
    command = (sys.executable, "-c", _KILLED)
    with subprocess.Popen(
        command, env=nvml_stub.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        word, pid = process.stdout.readline().split()
        assert word == "locked"
        guard = psutil.Process(int(pid))
        assert nvml_stub.locked() == (BASE, BASE)
        assert nvml_stub.locked(of="memory-") is not None
        process.communicate()
    guard.wait(timeout=60)
    assert (nvml_stub.locked(), nvml_stub.locked(of="memory-")) == (None, None)


def test_other_devices_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check on the CPU pays nothing, and neither does a run without the option."""
    monkeypatch.setattr(locked_clocks, "opened_nvml", pytest.fail)
    monkeypatch.setattr(locked_clocks, "ClockGuard", pytest.fail)
    for device in ("cpu", "npu:0"):
        with ClockLocker(pytest.fail)(device) as lock:
            assert lock is None
    with free_clocks("cuda:0") as lock:
        assert lock is None
