"""Locks of devices between real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_quant import device_lock
from pytest_quant.device_lock import FOLDER_VARIABLE, exclusive, shared

HOLD = """
import sys
from pytest_quant.device_lock import exclusive, shared
with {mode}("cpu", lambda text: None):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of this test only, and a short wait before anything is told."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(device_lock, "_WAIT_S", 0.2)


def hold(mode: str) -> subprocess.Popen[str]:
    """Start a process that holds the device until it is told, or killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(mode=mode)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def release(process: subprocess.Popen[str]) -> None:
    """Let the process give the device back, and wait for its end."""
    process.communicate("\n", timeout=30)
    assert process.returncode == 0


def test_builds_share_a_device() -> None:
    """Two shared holders do not wait for each other."""
    other = hold("shared")
    told: list[str] = []
    with shared("cpu", told.append):
        assert told == []
    release(other)


@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_timing_waits_for_everybody_and_says_so(mode: str) -> None:
    """The exclusive lock comes when the other process is done, and the wait is told once."""
    other = hold(mode)
    told: list[str] = []

    def on_wait(text: str) -> None:
        told.append(text)
        release(other)

    with exclusive("cpu", on_wait):
        assert other.returncode == 0
    assert len(told) == 1
    assert "waiting for cpu" in told[0]


def test_builds_wait_for_timing() -> None:
    """A build does not start beside a measurement."""
    other = hold("exclusive")
    told: list[str] = []

    def on_wait(text: str) -> None:
        told.append(text)
        release(other)

    with shared("cpu", on_wait):
        assert other.returncode == 0
    assert len(told) == 1


def test_the_lock_of_a_killed_process_is_free() -> None:
    """Kill -9 of the holder leaves nothing behind that blocks."""
    other = hold("exclusive")
    other.kill()
    other.wait()
    with exclusive("cpu", pytest.fail):
        pass


def test_devices_are_independent() -> None:
    """Timing on one device does not stop another."""
    other = hold("exclusive")
    with exclusive("cuda:0", pytest.fail):
        pass
    release(other)


def test_a_lock_is_free_again_after_an_error() -> None:
    """A measurement that raised holds nothing."""
    with pytest.raises(RuntimeError), exclusive("cpu", pytest.fail):
        raise RuntimeError
    with shared("cpu", pytest.fail):
        pass
