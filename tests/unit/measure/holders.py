"""Processes that hold a device as they are told."""

from __future__ import annotations

import subprocess
import sys

HOLD = """
import sys
from pytest_quant.measure import lock
lock._WAIT_S = 0.2
tell = lambda text: print(text, flush=True)
device, mode, wait_s = sys.argv[1:]
locks = lock.DeviceLocks(tell, float(wait_s))
if mode == "alone within share":
    with locks.shared(device):
        tell("shares")
        sys.stdin.readline()
        with locks.hold_alone(device):
            tell("alone")
        tell("shares again")
else:
    with getattr(locks, mode)(device):
        tell("held")
        sys.stdin.readline()
"""
NO_TIME_S = 0.05


def start(mode: str, device: str = "cpu", wait_s: float = 60.0) -> subprocess.Popen[str]:
    """Start a process that wants the device."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLD, device, mode, str(wait_s)]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def hold(mode: str) -> subprocess.Popen[str]:
    """Start a process that holds the processor until it is released, or killed."""
    process = start(mode)
    assert line(process) == "held"
    return process


def line(process: subprocess.Popen[str]) -> str:
    """Return what the process says next."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: subprocess.Popen[str]) -> None:
    """Let the process take its next step."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def release(process: subprocess.Popen[str]) -> None:
    """Let the process give the device back, and wait for its end."""
    process.communicate("\n", timeout=30)
    assert process.returncode == 0


def can_have(device: str, mode: str) -> bool:
    """Whether another process can have the device now."""
    said, complaint = start(mode, device, NO_TIME_S).communicate("\n")
    assert "held" in said or "did so for" in complaint
    return "held" in said
