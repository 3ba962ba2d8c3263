"""ONNX Runtime's GPU wheel on a machine without CUDA: who asks for a GPU is told why not, and gets no CPU for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.backends.cuda import DeviceClock
from pytest_quant.backends.ort.gpu_engine import set_stream
from pytest_quant.backends.ort.libraries import CUDA, CUDA_OPTIONS, TENSORRT, find_loading_error
from pytest_quant.backends.ort.session import Provider
from pytest_quant.backends.trt.provider_engine import LISTS_LAYERS, profile_options, provider_options
from pytest_quant.spec import EngineSpec, Model
from tests.integration.projects import run_elsewhere
from tests.support.example import ROOT
from tests.support.fake_tensorrt import HostMemory

_HIDE = """
import importlib.metadata as metadata

def _without_cpu_wheel(found):
    return [one for one in found if (one.metadata["Name"] or "").lower() != "onnxruntime"]

_find = metadata.MetadataPathFinder.find_distributions

def find_distributions(*args, **kwargs):
    return iter(_without_cpu_wheel(_find(*args, **kwargs)))

metadata.MetadataPathFinder.find_distributions = staticmethod(find_distributions)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment with the GPU wheel, in which the CPU wheel is not seen."""
    folder = tmp_path_factory.mktemp("gpu") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site)]
    # A release of both may reach a registry on different days.
    wanted = f"onnxruntime-gpu<={version('onnxruntime')}"
    installed = subprocess.run([*command, "--retries=15", wanted], capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    lines = [str(Path(json.__file__).parents[1]), str(Path(pytest.__file__).parents[1]), "import hide"]
    (site / "hide.py").write_text(_HIDE)
    (site / "rest.pth").write_text("\n".join(lines))
    return folder / "bin" / "python"


@pytest.fixture
def no_driver() -> None:
    """Some outcomes are those of a machine without CUDA."""
    if not find_loading_error("libcuda.so.1"):
        pytest.skip("there is an NVIDIA driver here")


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize("mark", ["backend='ort-cuda'", "backend='ort-trt'", "backend='ort', reference='ort-cuda'"])
def test_a_backend_on_the_gpu_is_unavailable(wheel: Path, tmp_path: Path, mark: str) -> None:
    """As candidate and as reference: skipped with the library that is missing, and a failure where it is required."""
    result, (check,) = run_elsewhere(wheel, tmp_path, f"{mark}, max_drop=5.0", "-rs")
    assert result.returncode == 0, result.stdout
    assert "1 skipped" in result.stdout
    assert "libcuda.so.1" in result.stdout
    assert (check["status"], check["accuracy"]) == ("UNAVAILABLE", None)
    if "ort-cuda" in mark:
        result, _ = run_elsewhere(wheel, tmp_path, f"{mark}, max_drop=5.0", "--quant-require=ort-cuda")
        assert result.returncode == pytest.ExitCode.TESTS_FAILED, result.stdout
        assert "no NVIDIA driver" in result.stdout


@pytest.mark.usefixtures("no_driver")
def test_the_cpu_backend_still_runs_on_the_cpu(wheel: Path, tmp_path: Path) -> None:
    """The GPU wheel holds the CPU provider too, and `ort` proves that it is the one that ran."""
    result, (check,) = run_elsewhere(wheel, tmp_path, "max_drop=5.0")
    assert result.returncode == 0, result.stdout
    assert check["coverage"]["provider"] == "CPUExecutionProvider"


def examined(python: Path) -> dict[str, Any]:
    """Ask the doctor of that interpreter; return the backends by name."""
    command = (python, "-c", "from pytest_quant.cli import main; main()", "doctor", "--json")
    ended = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return {state["name"]: state for state in json.loads(ended.stdout)["backends"]}


@pytest.mark.usefixtures("no_driver")
def test_the_doctor_knows_each_wheel(wheel: Path) -> None:
    """Of both it says that the driver is missing, and nothing that would take the CPU wheel away."""
    for python in (Path(sys.executable), wheel):
        backends = examined(python)
        assert (backends["ort"]["state"], backends["ort-cuda"]["state"]) == ("ok", "missing")
        assert "no NVIDIA driver here (libcuda.so.1" in backends["ort-cuda"]["reason"]
        assert "pip" not in backends["ort-cuda"]["fix"]


@pytest.mark.parametrize("name", ["cuda", "tensorrt"])
def test_the_options_of_a_provider_are_its_own(wheel: Path, name: str) -> None:
    """It has the name of every option that it is given; it cannot be asked without a device."""
    file = f"lib/python*/site-packages/onnxruntime/capi/libonnxruntime_providers_{name}.so"
    names = next(wheel.parents[1].glob(file)).read_bytes()
    spec = EngineSpec("ort-trt", "int8", "static", Model("net"), options=(("workspace_mb", 3),))
    shapes = profile_options({"x": ((1, 2), (1, 2), (1, 2))})
    given = {
        "cuda": Provider(CUDA, CUDA_OPTIONS),
        "tensorrt": Provider(TENSORRT, {**provider_options(spec, Path()), **shapes, LISTS_LAYERS: "1"}),
    }[name]
    (provider,) = set_stream(DeviceClock(HostMemory(), 123456, []), [given])
    assert {"has_user_compute_stream", "user_compute_stream"} < provider.options.keys()
    assert [option for option in provider.options if option.encode() not in names] == []
    assert b"no_such_option" not in names
