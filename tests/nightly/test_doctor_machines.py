"""What the doctor says of machines that people have: each wheel of ONNX Runtime, both, half a TensorRT."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.backends.ort.libraries import loading_trouble
from tests.support import gpu_wheel, tensorrt_bindings
from tests.support.nvml_stub import NvmlStub, StubCard, StubInstance, uuid_of

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
COMMAND = "from pytest_quant.cli import main; main()"


def examined(python: str | Path = sys.executable, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Ask the doctor of that interpreter for JSON, and return it with the backends by name."""
    env = {**(os.environ if environ is None else environ)}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), env.get("PYTHONPATH"))))
    ended = subprocess.run(
        (python, "-c", COMMAND, "doctor", "--json"), env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert ended.returncode == 0, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return {**document, "backends": {state["name"]: state for state in document["backends"]}}


def wheel_problems(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the problems that speak of wheels that overwrite each other."""
    return [problem for problem in document["problems"] if "overwrite" in problem["what"]]


def test_the_cpu_wheel() -> None:
    """The CPU runs; of CUDA it says that this is the CPU wheel, with the two commands that bring the other."""
    found = examined()
    assert found["backends"]["ort"]["state"] == "ok"
    for name in ("ort-cuda", "ort-trt"):
        state = found["backends"][name]
        assert state["state"] == "missing"
        assert state["reason"].endswith("it is the CPU wheel")
        assert state["fix"] == 'pip uninstall -y onnxruntime && pip install "onnxruntime-gpu[cuda,cudnn]"'
    assert wheel_problems(found) == []


def test_the_gpu_wheel(tmp_path: Path) -> None:
    """The CPU runs with it too; of CUDA the driver is what is missing, and no wheel is in the way of another."""
    if not loading_trouble("libcuda.so.1"):
        pytest.skip("there is an NVIDIA driver here")
    found = examined(gpu_wheel.make_environment(tmp_path / "venv"))
    assert found["backends"]["ort"]["state"] == "ok"
    assert "no NVIDIA driver here (libcuda.so.1" in found["backends"]["ort-cuda"]["reason"]
    assert wheel_problems(found) == []


def test_both_wheels(tmp_path: Path) -> None:
    """A problem of the machine and of each backend on a GPU, with lines that leave one wheel."""
    found = examined(gpu_wheel.make_environment(tmp_path / "venv", beside_cpu_wheel=True))
    (problem,) = wheel_problems(found)
    assert problem["what"].startswith("onnxruntime and onnxruntime-gpu are both installed")
    assert problem["fix"] == 'pip uninstall -y onnxruntime onnxruntime-gpu && pip install "pytest-quant[gpu]"'
    for name in ("ort-cuda", "ort-trt"):
        assert found["backends"][name]["state"] == "broken"
        assert "are both installed" in found["backends"][name]["reason"]


def test_two_cards_one_of_them_split(nvml_stub: NvmlStub) -> None:
    """The real nvidia-ml-py on a stub of the driver: both cards, the instance, and which is cuda:0 of each choice."""
    part = StubInstance(uuid_of(1, "MIG"))
    split = StubCard(name="NVIDIA A100-SXM4-40GB", capability="8.0", mig=1, instances=(part,))
    nvml_stub.play(StubCard(), split, cuda=(uuid_of(0),))
    for chosen, first in ((uuid_of(0), uuid_of(0)), (part.uuid, part.uuid)):
        cards = examined(environ={**nvml_stub.environment(), "CUDA_VISIBLE_DEVICES": chosen})["cards"]
        assert next(card["uuid"] for card in cards if card["cuda"] == "cuda:0") == first
        assert len(cards) == 2
    nothing = examined(environ={**nvml_stub.environment(), "CUDA_VISIBLE_DEVICES": "GPU-nonsense"})
    assert "leaves none of" in nothing["problems"][0]["what"]


@pytest.mark.parametrize("major", tensorrt_bindings.MAJORS)
def test_tensorrt_whose_libraries_are_missing(major: int, tmp_path: Path) -> None:
    """The real bindings are there and do not load: named are the library, what was found, and the line that helps."""
    bindings = tensorrt_bindings.install(tmp_path, major)
    state = examined(environ=bindings.environment(with_libraries=False))["backends"]["trt"]
    assert state["state"] == "broken"
    assert state["reason"].startswith("tensorrt wants lib")
    assert f".so.{major}" in state["reason"]
    assert f"tensorrt-cu13-bindings {major}." in state["reason"]
    assert state["fix"] == f'pip install --force-reinstall "tensorrt>={major},<{major + 1}"'


@pytest.mark.parametrize("major", tensorrt_bindings.MAJORS)
def test_tensorrt_without_a_gpu(major: int, tmp_path: Path) -> None:
    """With its libraries it loads, and what is missing is the GPU."""
    if not loading_trouble("libcuda.so.1"):
        pytest.skip("there is an NVIDIA driver here")
    bindings = tensorrt_bindings.install(tmp_path, major)
    state = examined(environ=bindings.environment())["backends"]["trt"]
    assert state["state"] == "missing"
    assert f"TensorRT {major}." in state["reason"]
    assert "there is no NVIDIA GPU here" in state["reason"]
