"""Whole runs on a GPU that is none: ONNX Runtime on the CPU says it is one, and a stub of the driver has its card."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.integration.projects import output, run_project_apart, write_project
from tests.integration.test_interruptions import install_backend
from tests.support import models
from tests.support.interruptible import interruptible
from tests.support.nvml_stub import NO_PERMISSION, NvmlStub, StubCard, each

TIMED = ("--no-quant-no-latency", "--quant-max-time=0.5", "--quant-lock-clocks")

BACKEND = """
import time
from pathlib import Path
from pytest_quant.backends.ort import OrtBackend


class FakeBackend(OrtBackend):
    name = "fake"
    device = "cuda:0"

    def open(self, spec, folder):
        engine = super().open(spec, folder)
        prepare = engine.prepare

        def prepared(feeds):
            call = prepare(feeds)

            def run():
                if Path("wait").exists():
                    Path("timing").touch()
                    while True:
                        time.sleep(0.01)
                return call()

            return run

        engine.prepare = prepared
        return engine
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two checks on the fake GPU."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(pytester.path), os.environ.get("PYTHONPATH", "")]))
    models.select_first(pytester.path / "model.onnx")
    install_backend(pytester.path, "fake", BACKEND)
    write_project(pytester, mark="backend='fake', precision=['fp32', 'int8'], max_drop=5.0")
    return pytester.path


@pytest.mark.usefixtures("project")
def test_a_record_says_that_clocks_were_locked(pytester: pytest.Pytester, nvml_stub: NvmlStub) -> None:
    """And the samples of the clocks that nothing held it down but that; they are free after the run."""
    nvml_stub.play(StubCard(sm_mhz=2040, processes="self:100000000"))
    result, checks = run_project_apart(pytester, *TIMED)
    result.assert_outcomes(passed=2)
    for check in checks:
        assert check["latency"]["clocks_locked"] is True
        assert [note for note in check["latency"]["notes"] if note.startswith("GPU")] == [
            "GPU clocks locked: the SM clock at its base, that of the memory at its highest"
        ]
        assert check["resources"]["device"] == "cuda:0"
        assert check["resources"]["device_memory_nvml_mb"] == 0.0
    assert (nvml_stub.locked(), nvml_stub.locked(of="memory-")) == (None, None)


@pytest.mark.usefixtures("project")
def test_a_user_who_may_not_is_told_once(pytester: pytest.Pytester, nvml_stub: NvmlStub) -> None:
    """Both checks are timed, say in what share of the samples the card was held down, and pass."""
    nvml_stub.play(StubCard(lock_clocks=NO_PERMISSION, sm_mhz=each(1980, 1980, 990), throttle=each(0, 0, 0x4)))
    result, checks = run_project_apart(pytester, *TIMED)
    result.assert_outcomes(passed=2)
    line = "quant: the clocks of cuda:0 cannot be locked: no permission, which needs root; timing goes on without"
    assert output(result).count(line) == 1
    first, second = (check["latency"] for check in checks)
    assert (first["clocks_locked"], second["clocks_locked"]) == (False, False)
    assert [note for note in second["notes"] if note.startswith("GPU")] == [
        f"GPU held down in 100 % of {second['rounds'] + 1} samples (power limit 100 %), SM clock 990 MHz",
        "GPU clocks not locked: no permission, which needs root",
    ]
    assert "SM clock 990 to 1980 MHz" in "".join(first["notes"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_clocks_are_free_after_a_run_that_was_ended(project: Path, nvml_stub: NvmlStub, number: signal.Signals) -> None:
    """In the middle of a timed run, by the test runner or by the kernel: a process of its own takes care of SIGKILL."""
    nvml_stub.play(StubCard())
    (project / "wait").touch()
    command = interruptible("pytest", *TIMED)
    run = subprocess.Popen(
        command, cwd=project, env=nvml_stub.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        while not (project / "timing").exists():
            assert run.poll() is None, run.communicate()
        assert nvml_stub.locked() is not None
        guards = psutil.Process(run.pid).children()
        run.send_signal(number)
        printed, _ = run.communicate(timeout=600)
    finally:
        run.kill()
    assert len(guards) == 1
    psutil.wait_procs(guards, timeout=60)
    assert nvml_stub.locked() is None, printed
