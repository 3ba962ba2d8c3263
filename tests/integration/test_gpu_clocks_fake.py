"""Whole runs on a GPU that is none: ONNX Runtime on the CPU says it is one, and a stub of the driver has its card."""

from __future__ import annotations

import os

import pytest

from tests.integration.projects import run_project_apart, write_project
from tests.integration.test_interruptions import install_backend
from tests.support import models
from tests.support.nvml_stub import NvmlStub, StubCard, each

TIMED = ("--no-quant-no-latency", "--quant-max-time=0.5")

BACKEND = """
from pytest_quant.backends.ort import OrtBackend


class FakeBackend(OrtBackend):
    name = "fake"
    device = "cuda:0"
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two checks on the fake GPU."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(pytester.path), os.environ.get("PYTHONPATH", "")]))
    models.select_first(pytester.path / "model.onnx")
    install_backend(pytester.path, "fake", BACKEND)
    write_project(pytester, mark="backend='fake', precision=['fp32', 'int8'], max_drop=5.0")


@pytest.mark.usefixtures("project")
def test_the_clocks_of_a_fake_gpu_are_read_after_each_round(pytester: pytest.Pytester, nvml_stub: NvmlStub) -> None:
    """Both checks say in what share of the samples the card was held down, and pass."""
    nvml_stub.play(StubCard(sm_mhz=each(1980, 1980, 990), throttle=each(0, 0, 0x4), processes="self:100000000"))
    result, checks = run_project_apart(pytester, *TIMED)
    result.assert_outcomes(passed=2)
    first, second = (check["latency"] for check in checks)
    assert [note for note in second["notes"] if note.startswith("GPU")] == [
        f"GPU held down in 100 % of {second['rounds'] + 1} samples (power limit 100 %), SM clock 990 MHz",
    ]
    assert "SM clock 990 to 1980 MHz" in "".join(first["notes"])
    for check in checks:
        assert check["resources"]["device"] == "cuda:0"
        assert check["resources"]["device_memory_nvml_mb"] == 0.0
