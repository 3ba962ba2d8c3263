"""``--quant-device``, workers that spread over cards, and the clocks of a card that is none.

A stub of the driver has the cards, and checks that measure nothing note what CUDA would show to them.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.integration.fake_session import CONFTEST, run_fake_apart
from tests.integration.projects import output, run_project_apart, write_project
from tests.integration.test_interruptions import install_backend
from tests.support import models
from tests.support.nvml_stub import NvmlStub, StubCard, each, uuid_of

SOURCE = """
import os, pathlib, sys

@mark.quant(backend={backend!r}, output="PASS")
def test_it():
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    pathlib.Path("seen-" + worker).write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
"""
BY_ITSELF = """
import os

def test_it(build_engine):
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    build_engine("trt", "fp32")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == {uuid!r}
"""
UNMARKED = "def test_it():\n    import sys\n    assert 'pynvml' not in sys.modules\n"
EACH = ("--dist", "each", "-n")
CARD, OTHER = uuid_of(0), uuid_of(1)
T4 = StubCard(name="NVIDIA T4", capability="7.5")


class Project:
    """A project with one check on a GPU, or on the CPU."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pytester = pytester
        self._monkeypatch = monkeypatch
        monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)

    def run(
        self, *args: str, backend: str = "trt", source: str = "", conftest: str = CONFTEST, **outcomes: int
    ) -> pytest.RunResult:
        """Run it, in processes of its own, and check the outcomes if there are to be any."""
        # A document names the GPU of its run, for which the driver is asked.
        written = () if source == UNMARKED else ("--quant-json=run.json",)
        source = source or SOURCE.format(backend=backend)
        options = ("--quant-no-history", *written, *args)
        result = run_fake_apart(self._pytester, source, *options, conftest=conftest)
        if outcomes:
            result.assert_outcomes(**outcomes)
        return result

    @property
    def seen(self) -> dict[str, str]:
        """What CUDA would have shown to each process that ran the test."""
        return {path.name.removeprefix("seen-"): path.read_text() for path in self._pytester.path.glob("seen-*")}

    @property
    def document(self) -> dict[str, Any]:
        """The record of the run."""
        result: dict[str, Any] = json.loads((self._pytester.path / "run.json").read_text())
        return result

    @property
    def gpu(self) -> tuple[str, str]:
        """Name and UUID of the GPU in the record of the run."""
        environment = self.document["run"]["environment"]
        return environment["identity"]["gpu"], environment["context"]["gpu_uuid"]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project in a folder of its own."""
    return Project(pytester, monkeypatch)


@pytest.mark.parametrize("given", ["--quant-device=GPU-00000001", "-oquant_device=cuda:1"])
def test_the_named_gpu_is_the_only_one(project: Project, nvml_stub: NvmlStub, given: str) -> None:
    """Whatever its name, and wherever it is written; the record says which it was, and of which model."""
    nvml_stub.play(StubCard(), T4, cuda=(CARD, OTHER))
    project.run(given, passed=1)
    assert project.seen == {"main": OTHER}
    assert project.gpu == ("NVIDIA T4", OTHER)


def test_the_named_gpu_is_that_of_every_worker(project: Project, nvml_stub: NvmlStub) -> None:
    """A number means what it means where pytest was started, though a worker sees one GPU; the record is of that."""
    nvml_stub.play(StubCard(), T4, cuda=(CARD, OTHER))
    project.run("--quant-device=cuda:1", *EACH, "2", passed=2)
    assert project.seen == {"gw0": OTHER, "gw1": OTHER}
    assert project.gpu == ("NVIDIA T4", OTHER)


def test_workers_spread_over_cards(project: Project, nvml_stub: NvmlStub) -> None:
    """Round robin over those of one model."""
    nvml_stub.play(StubCard(), StubCard())
    project.run(*EACH, "3", passed=3)
    assert project.seen == {"gw0": CARD, "gw1": OTHER, "gw2": CARD}
    assert project.gpu == ("NVIDIA L4", f"{CARD}, {OTHER}")


def test_an_engine_of_a_test_without_a_mark_is_on_the_named_gpu(project: Project, nvml_stub: NvmlStub) -> None:
    """Which is chosen when it is built; where that GPU is not there the test fails with what is."""
    nvml_stub.play(StubCard(), T4, cuda=(CARD, OTHER))
    project.run("-oquant_device=cuda:1", source=BY_ITSELF.format(uuid=OTHER), passed=1)
    result = project.run("-oquant_device=cuda:7", source=BY_ITSELF.format(uuid=OTHER), failed=1)
    assert "there is no GPU 'cuda:7' for this run" in result.stdout.str()


def test_a_gpu_that_is_not_there_is_an_error_of_the_checks_on_one(project: Project, nvml_stub: NvmlStub) -> None:
    """From the ini file, which is read for checks on the CPU too; on the command line no run begins."""
    nvml_stub.play(StubCard())
    project.run("-oquant_device=cuda:7", errors=1)
    (check,) = project.document["checks"]
    assert check["status"] == "ERROR"
    assert "cuda:7" in check["message"]
    project.run("-oquant_device=cuda:7", backend="ort", passed=1)
    assert project.run("--quant-device=cuda:7", backend="ort").ret == pytest.ExitCode.USAGE_ERROR


def test_the_ini_file_may_be_read_where_no_gpu_is(project: Project, nvml_stub: NvmlStub) -> None:
    """There the backend says that its device is missing, or the check is simulated."""
    nvml_stub.play()
    project.run("-oquant_device=cuda:1", passed=1)
    result = project.run("--quant-device=cuda:1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "no NVIDIA GPU here" in result.stderr.str()


def test_a_value_that_names_no_gpu_is_refused(project: Project) -> None:
    """Before anything is looked up."""
    result = project.run("--quant-device=1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "'1' is not a GPU; write cuda:1, or a UUID" in output(result)


def test_without_a_check_on_a_gpu_none_is_chosen(project: Project, nvml_stub: NvmlStub) -> None:
    """A run without a mark loads no NVML, whatever the ini file says; checks on the CPU leave the process its GPUs."""
    nvml_stub.play(StubCard(), StubCard())
    project.run("-oquant_device=cuda:1", "-n", "1", source=UNMARKED, passed=1)
    assert nvml_stub.cuda_starts == 0
    project.run(*EACH, "2", backend="ort", passed=2)
    assert project.seen == {"gw0": "all", "gw1": "all"}


TIMED = ("--quant-with-latency", "--quant-max-time=0.5")

BACKEND = """
from pytest_quant.backends.ort import OrtBackend


class FakeBackend(OrtBackend):
    name = "fake"
    device = "cuda:0"
"""


def test_the_clocks_of_a_fake_gpu_are_read_after_each_round(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, nvml_stub: NvmlStub
) -> None:
    """Both checks say in what share of the samples the card was held down, and pass."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(pytester.path), os.environ.get("PYTHONPATH", "")]))
    models.select_first(pytester.path / "model.onnx")
    install_backend(pytester.path, "fake", BACKEND)
    write_project(pytester, mark="backend='fake', precision=['fp32', 'int8'], max_drop=5.0")
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
