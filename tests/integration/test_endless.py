"""A long step is shown, and what would never end has an end, with a message that names it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.measure.lock import FOLDER_VARIABLE
from pytest_quant.plugin.console import open_steps
from tests.integration.fake_session import run_fake, run_fake_apart
from tests.integration.projects import output, run_project, run_project_apart, write_project
from tests.integration.test_interruptions import install_backend
from tests.support.models import parsed, select_first

HOLD = """
import sys
from pytest_quant.measure.lock import DeviceLocks
with DeviceLocks(print).exclusive("cpu"):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_device_that_is_never_free_is_an_error(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the process that holds it; the next run has the device."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "locks"))
    select_first(pytester.path / "model.onnx")
    write_project(pytester)
    timing = ("--quant-with-latency", "--quant-max-time=0.1")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        result, (check,) = run_project(pytester, *timing, "--quant-lock-timeout=0.5")
    finally:
        holder.communicate("\n")
    result.assert_outcomes(errors=1)
    assert check["status"] == "ERROR"
    assert f"process {holder.pid} (" in output(result)
    result, (check,) = run_project(pytester, *timing)
    result.assert_outcomes(passed=1)


ENDLESS = """(float[n, 8] x) => (float[n, 4] y) <int64 most = {9223372036854775807}, bool going = {1}> {
    scores = MatMul (x, weight)
    y = Loop (most, going, scores) <body = body (int64 i, bool on, float[n, 4] a) => (bool more, float[n, 4] b) {
        more = Identity (on)
        b = Sin (a)
    }>
}"""


def test_a_model_that_never_ends_is_an_error(pytester: pytest.Pytester) -> None:
    """ONNX Runtime ends the run when it is asked to; the message names the engine and the option."""
    parsed(pytester.path / "model.onnx", ENDLESS, weight=np.full((8, 4), 0.5, np.float32))
    write_project(pytester, mark="precision='fp32', max_drop=5.0")
    result, (check,) = run_project_apart(pytester, "--quant-step-timeout=0.5")
    result.assert_outcomes(errors=1)
    assert check["status"] == "ERROR"
    assert "a run of ort-fp32 of model did not end within 0.5 s" in output(result)
    assert "--quant-step-timeout" in output(result)


STUCK = """
import threading
from pytest_quant.backends.ort import OrtBackend


class StuckBackend(OrtBackend):
    name = "stuck"

    def ingredients(self, spec):
        return super().ingredients(spec) | {"backend": "stuck"}

    def build(self, spec, calibration, folder):
        threading.Event().wait()
"""


def test_a_build_that_never_ends_ends_the_process(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a message; what finished before it is added by the next run."""
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=os.pathsep)
    select_first(pytester.path / "model.onnx")
    install_backend(pytester.path, "stuck", STUCK)
    write_project(pytester, mark="backend=['ort', 'stuck'], max_drop=5.0")
    # Above what a good build takes here, so that only the stuck one is ended.
    result, checks = run_project_apart(pytester, "--quant-step-timeout=5")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "did not end within 5 s" in output(result)
    assert checks == []
    result, _ = run_project_apart(pytester, "-k", "ort-int8")
    assert "1 check of 1 run that did not end well added to the history" in output(result)


SLOW = "@mark.quant(output='slow')\ndef test_slow():\n    print('captured')\n\ndef test_next(): pass\n"


@pytest.mark.parametrize("args", [(), ("-v",), ("--capture=sys",), ("-s",), ("-n", "2"), ("-q",)])
def test_a_long_step_is_shown_on_a_line_of_its_own(pytester: pytest.Pytester, args: tuple[str, ...]) -> None:
    """Before the outcome of its test, whatever captures and whoever works; what it prints stays captured; not by -q."""
    run = run_fake_apart if "-n" in args else run_fake
    result = run(pytester, SLOW, *args)
    result.assert_outcomes(passed=2)
    printed = result.errlines if "-n" in args else result.outlines
    shown = [line for line in printed if "building slowly" in line]
    lines = ["quant: 10 s: building slowly", "quant: building slowly: took 10 s"]
    assert shown == ([] if "-q" in args else lines)
    assert ("captured" in result.stdout.str()) is ("-s" in args)
    if "-v" in args:
        result.stdout.fnmatch_lines(["quant: building slowly: took*", "test_it.py::test_slow PASSED*"])


def test_without_a_terminal_nothing_is_shown(pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever turns pytest's output off gets none of ours."""
    open_steps(pytester.parseconfigure("-p", "no:terminal")).notify("hidden")
    assert "hidden" not in "".join(capfd.readouterr())
    open_steps(pytester.parseconfigure()).notify("shown")
    assert "shown" in "".join(capfd.readouterr())
