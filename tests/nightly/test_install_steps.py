"""Commands that errors about a missing or damaged package print: each is run as it stands, and the error is gone.

pip is asked to leave out what a package needs, where that is gigabytes for a GPU: what is tested is what the command
names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.projects import CONFTEST, DATA, TEST
from tests.support import models
from tests.support.example import ROOT, environment

ALONE = {"PIP_NO_DEPS": "1"}
"""What pip takes as ``--no-deps``."""


class FreshEnvironment:
    """A virtual environment with this package and what one of its extras brings.

    Parameters
    ----------
    folder : where it is made.
    extra : such as ``[ort]``; empty for the core alone.
    """

    def __init__(self, folder: Path, extra: str = "") -> None:
        self.python = folder / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        self.must(f"pip install -q '{ROOT}{extra}'")

    @property
    def packages(self) -> Path:
        """The folder of its packages."""
        return next(self.python.parents[1].glob("lib/python*/site-packages"))

    def run(
        self, command: str, variables: dict[str, str] | None = None, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a line as a user types it, in a shell in which this environment is active."""
        path = f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=folder,
            env=environment() | {"PATH": path} | (variables or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=600,
        )

    def must(self, command: str, variables: dict[str, str] | None = None) -> str:
        """Run a line that has to succeed, and return what it printed."""
        ended = self.run(command, variables)
        assert ended.returncode == 0, ended.stdout
        return ended.stdout

    def backend(self, name: str) -> dict[str, str]:
        """Return what the doctor says of a backend."""
        states = json.loads(self.must("pytest-quant doctor --json"))["backends"]
        return next(state for state in states if state["name"] == name)


@pytest.fixture(scope="module")
def index() -> None:
    """Skip where no index of packages can be reached."""
    ask = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--no-deps", "tomli-w"]
    if subprocess.run(ask, capture_output=True, check=False).returncode:
        pytest.skip("no index of packages is reachable")


@pytest.fixture
def fresh(index: None, tmp_path: Path) -> Callable[[str], FreshEnvironment]:
    """Makes an environment with an extra."""
    return lambda extra: FreshEnvironment(tmp_path / "venv", extra)


def assert_no_more_than_a_driver_is_missing(state: dict[str, str]) -> None:
    """Nothing is left to say of a backend for GPUs but that this machine has none."""
    assert state["state"] == "ok" or "no NVIDIA driver" in state["reason"], state


def test_two_wheels_of_onnx_runtime(fresh: Callable[[str], FreshEnvironment]) -> None:
    """Of both wheels the one for GPUs is left, whole: the backend on the CPU runs with it."""
    here = fresh("[ort]")
    here.must("pip install -q onnxruntime-gpu", ALONE)
    state = here.backend("ort-cuda")
    assert "are both installed" in state["reason"]
    here.must(state["fix"], ALONE)
    assert_no_more_than_a_driver_is_missing(here.backend("ort-cuda"))
    assert here.backend("ort")["state"] == "ok"


def test_a_damaged_wheel_of_onnx_runtime(fresh: Callable[[str], FreshEnvironment]) -> None:
    """A file of the wheel for GPUs is no library: pip takes the wheel for installed, so it has to go first."""
    here = fresh("[ort]")
    here.must("pip uninstall -q -y onnxruntime && pip install -q onnxruntime-gpu", ALONE)
    (library,) = here.packages.glob("onnxruntime/capi/onnxruntime_pybind11_state*.so")
    library.write_text("no library")
    state = here.backend("ort-cuda")
    assert (state["state"], "import fails" in state["reason"]) == ("broken", True)
    here.must(state["fix"], ALONE)
    assert_no_more_than_a_driver_is_missing(here.backend("ort-cuda"))


def test_a_damaged_plugin_of_openvino(fresh: Callable[[str], FreshEnvironment]) -> None:
    """A file of the plugin is no library."""
    here = fresh("[ort]")
    here.must("pip install -q onnxruntime-ep-openvino")
    before = here.backend("ort-openvino")
    for library in here.packages.glob("onnxruntime_ep_openvino/libonnxruntime_providers_openvino_plugin.so*"):
        library.write_text("no library")
    state = here.backend("ort-openvino")
    assert (state["state"], "the plugin does not load" in state["reason"]) == ("broken", True)
    here.must(state["fix"])
    assert here.backend("ort-openvino") == before


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("name", ["tensorrt", "tensorrt-cu13", "tensorrt-cu12"])
def test_a_distribution_of_tensorrt_that_is_to_be_installed_again_exists(name: str) -> None:
    """They hold gigabytes and want a GPU: no more is asked than whether the index has them."""
    ask = [sys.executable, "-m", "pip", "index", "versions", name]
    assert subprocess.run(ask, capture_output=True, check=False).returncode == 0


def test_a_core_that_gets_its_history_and_a_backend(fresh: Callable[[str], FreshEnvironment], tmp_path: Path) -> None:
    """The commands of the two errors of a first day: the history is there, and the check runs."""
    here = fresh("")
    project = tmp_path / "project"
    project.mkdir()
    models.select_first(project / "model.onnx")
    (project / "conftest.py").write_text(CONFTEST.format(model="model.onnx", data=DATA))
    (project / "test_model.py").write_text(TEST.format(mark="max_drop=5.0", body="pass"))
    for begins, check in (("pip install", "pytest-quant history"), ("pip install", "pytest -rs --quant-no-latency")):
        told = here.run(check, folder=project).stdout
        (command,) = {line[line.index(begins) :] for line in told.splitlines() if begins in line and "next:" in line}
        here.must(command)
        assert command not in here.run(check, folder=project).stdout
    assert "1 PASS" in here.run("pytest --quant-no-latency", folder=project).stdout
