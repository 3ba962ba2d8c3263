"""One backend is asked in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_quant.backends import Availability, get_backend
from pytest_quant.doctor.probe import probe, state_of
from pytest_quant.testing import NumpyBackend


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (Availability(True, "1.0", "cpu"), "ok"),
        (Availability(False, reason="not installed"), "missing"),
        (Availability(False, reason="does not load", broken=True), "broken"),
    ],
)
def test_states(answer: Availability, state: str) -> None:
    """A runtime that is here and does not load is not merely missing; what a backend offers is said of all."""
    result = state_of("numpy", NumpyBackend(), answer)
    assert (result.state, result.precisions) == (state, ("fp32", "int8 static", "int8 weight-only"))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal 11"),
        ("raise OSError('libnvinfer.so.10: cannot open')", "exit code 1: OSError: libnvinfer.so.10: cannot open"),
        ("raise SystemExit(0)", "exit code 0"),
    ],
)
def test_a_runtime_that_ends_the_process(
    body: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash of the asked process is an answer about the backend, not a crash of the doctor."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{body}"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    result = probe("numpy")
    assert result.state == "broken"
    assert reason in result.reason


def test_a_precision_that_nobody_knows_is_not_listed() -> None:
    """Functions run in whatever they like, which is offered and has no name."""
    offered = state_of("callable", get_backend("callable"), Availability(True)).precisions
    assert "fp32" in offered
    assert "" not in offered
