"""What would never end has an end, and a message that names it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_quant.measure.lock import FOLDER_VARIABLE
from tests.integration.projects import output, run_project_apart, write_project
from tests.support import models

HOLD = """
import sys
from pytest_quant.measure.lock import exclusive
with exclusive("cpu", print):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_device_that_is_never_free_is_an_error(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the process that holds it; the next run has the device."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "locks"))
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester)
    timing = ("--no-quant-no-latency", "--quant-max-time=0.1")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        result, (check,) = run_project_apart(pytester, *timing, "--quant-lock-timeout=0.5")
    finally:
        holder.communicate("\n")
    result.assert_outcomes(errors=1)
    assert check["status"] == "ERROR"
    assert f"process {holder.pid} (" in output(result)
    result, (check,) = run_project_apart(pytester, *timing)
    result.assert_outcomes(passed=1)
