"""Ctrl-C, bodies that raise, and third parties' figures."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration.projects import output, run_project_apart, write_project
from tests.support import models
from tests.support.example import interruptible
from tests.support.third_party import register_backend

SLOW_BACKEND = """
import time
from pathlib import Path
from pytest_quant.backends.ort import OrtBackend


class SlowBackend(OrtBackend):
    name = "slow"

    def build(self, spec, calibration, folder):
        Path("building").touch()
        while not Path("go").exists():
            time.sleep(0.01)
        super().build(spec, calibration, folder)
"""


def install_backend(folder: Path, name: str, source: str) -> None:
    """Put a third party's backend on the path of the project, entry point and all."""
    (folder / f"{name}_backend.py").write_text(source)
    register_backend(folder, name, f"{name}_backend:{name.capitalize()}Backend")


def test_ctrl_c_in_a_build_leaves_nothing_half(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupted run says so, and the next one builds the engine whole."""
    folder = pytester.path
    monkeypatch.setenv("PYTHONPATH", str(folder))
    models.select_first(folder / "model.onnx")
    install_backend(folder, "slow", SLOW_BACKEND)
    write_project(pytester, mark="backend='slow', max_drop=5.0")
    command = interruptible("pytest", "--quant-no-latency")
    run = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        while not (folder / "building").exists():
            assert run.poll() is None, run.communicate()
        run.send_signal(signal.SIGINT)
        printed, _ = run.communicate(timeout=600)
    finally:
        run.kill()
    assert run.returncode == pytest.ExitCode.INTERRUPTED, printed
    (folder / "go").touch()
    result, (check,) = run_project_apart(pytester)
    result.assert_outcomes(passed=1)
    assert check["cache"]["engine"] == "built"


def test_a_backend_that_is_not_installed_skips_with_the_pip_line(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without onnxruntime the check is skipped loudly; required by name, it fails."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester)
    pytester.makepyfile(hide_runtime="import sys\nsys.modules['onnxruntime'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    result, (check,) = run_project_apart(pytester, "-p", "hide_runtime")
    result.assert_outcomes(skipped=1)
    assert result.ret == 0
    assert check["status"] == "UNAVAILABLE"
    assert 'pip install "pytest-quant[ort]"' in output(result)
    result, _ = run_project_apart(pytester, "-p", "hide_runtime", "--quant-require=ort")
    assert result.ret != 0
    assert 'pip install "pytest-quant[ort]"' in output(result)
