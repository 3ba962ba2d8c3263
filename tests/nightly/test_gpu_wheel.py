"""Asked for CUDA without one, of the real GPU wheel: five ways to ask, five clear outcomes, none on the CPU."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.projects import CONFTEST, DATA, TEST
from tests.support import gpu_wheel, models
from tests.support.example import environment

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Ran:
    """How a run ended, what it printed, and its one check, if it came to be."""

    returncode: int
    output: str
    check: dict[str, Any] | None


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the GPU wheel."""
    return gpu_wheel.make_environment(tmp_path_factory.mktemp("gpu") / "venv")


def ask(wheel: Path, folder: Path, mark: str, *arguments: str) -> Ran:
    """Run a project with this mark in the environment of the GPU wheel."""
    models.select_first(folder / "model.onnx")
    (folder / "conftest.py").write_text(CONFTEST.format(model="model.onnx", data=DATA))
    (folder / "test_model.py").write_text(TEST.format(mark=mark, body="pass"))
    (folder / "pytest.ini").write_text("[pytest]\n")
    root = str(Path(__file__).parents[2])
    run = subprocess.run(
        [
            wheel,
            "-m",
            "pytest",
            "-rs",
            "-p",
            "no:cacheprovider",
            "--quant-no-latency",
            "--quant-json=run.json",
            *arguments,
        ],
        cwd=folder,
        env=environment() | {"PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    document = folder / "run.json"
    checks = json.loads(document.read_text())["checks"] if document.exists() else []
    return Ran(run.returncode, run.stdout + run.stderr, checks[0] if checks else None)


@pytest.fixture(autouse=True)
def no_driver() -> None:
    """These outcomes are those of a machine without CUDA."""
    from pytest_quant.backends.ort.libraries import loading_trouble

    if not loading_trouble("libcuda.so.1"):
        pytest.skip("there is an NVIDIA driver here")


@pytest.mark.parametrize("backend", ["ort-cuda", "ort-trt"])
def test_by_its_name(wheel: Path, tmp_path: Path, backend: str) -> None:
    """Skipped as UNAVAILABLE, with the library that is missing; the wheel lists the provider all the same."""
    listed = subprocess.run(
        [wheel, "-c", "import onnxruntime; print(onnxruntime.get_available_providers())"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "CUDAExecutionProvider" in listed.stdout
    ran = ask(wheel, tmp_path, f"backend='{backend}', max_drop=5.0")
    assert ran.returncode == 0, ran.output
    assert "1 skipped" in ran.output
    assert "libcuda.so.1" in ran.output
    assert ran.check is not None
    assert ran.check["status"] == "UNAVAILABLE"
    assert ran.check["accuracy"] is None


def test_as_the_reference(wheel: Path, tmp_path: Path) -> None:
    """A candidate on the CPU is not compared with a reference that fell back to it."""
    ran = ask(wheel, tmp_path, "backend='ort', reference='ort-cuda', max_drop=5.0")
    assert "1 skipped" in ran.output, ran.output
    assert ran.check is not None
    assert ran.check["status"] == "UNAVAILABLE"


def test_as_an_option_of_the_cpu_backend(wheel: Path, tmp_path: Path) -> None:
    """A usage error at collection: `ort` runs on the CPU and nowhere else."""
    ran = ask(wheel, tmp_path, "options={'provider': 'CUDAExecutionProvider'}, max_drop=5.0")
    assert ran.returncode == pytest.ExitCode.INTERRUPTED, ran.output
    assert "never falls back to it in silence" in ran.output
    assert ran.check is None


def test_as_required(wheel: Path, tmp_path: Path) -> None:
    """In CI the same is a failure."""
    ran = ask(wheel, tmp_path, "backend='ort-cuda', max_drop=5.0", "--quant-require=ort-cuda")
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.output
    assert "no NVIDIA driver" in ran.output
    assert "1 failed" in ran.output


def test_the_cpu_backend_still_runs_on_the_cpu(wheel: Path, tmp_path: Path) -> None:
    """The GPU wheel holds the CPU provider too, and `ort` proves that it is the one that ran."""
    ran = ask(wheel, tmp_path, "max_drop=5.0")
    assert ran.returncode == 0, ran.output
    assert ran.check is not None
    assert ran.check["coverage"]["provider"] == "CPUExecutionProvider"
