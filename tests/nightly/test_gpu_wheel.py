"""ONNX Runtime's real GPU wheel on a machine without CUDA: who asks for a GPU is told why not, and gets no CPU for it.

Its providers are also loaded by the real loader with stubs in the place of NVIDIA's libraries. What the stubs have was
read from the providers themselves; none of their functions is called before a session asks for a device, where the
provider's own error shows how far it came.
"""

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
from pytest_quant.backends.ort.gpu_engine import on_stream
from pytest_quant.backends.ort.libraries import CUDA, CUDA_OPTIONS, TENSORRT, loading_trouble
from pytest_quant.backends.ort.session import Provider
from pytest_quant.backends.trt.provider_build import LISTS_LAYERS, profile_options, provider_options
from pytest_quant.spec import EngineSpec, Model
from tests.integration.projects import run_elsewhere
from tests.support import models
from tests.support.example import ROOT
from tests.support.fake_tensorrt import HostMemory
from tests.support.tensorrt_bindings import compile_for, require_compiler, write_tensorrt

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
    if not loading_trouble("libcuda.so.1"):
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
    """Of the CPU wheel it says what brings the other; of the GPU wheel that the driver is missing."""
    backends = examined(Path(sys.executable))
    assert (backends["ort"]["state"], backends["ort-cuda"]["state"]) == ("ok", "missing")
    assert backends["ort-cuda"]["fix"] == 'pip uninstall -y onnxruntime && pip install "onnxruntime-gpu[cuda,cudnn]"'
    backends = examined(wheel)
    assert backends["ort"]["state"] == "ok"
    assert "no NVIDIA driver here (libcuda.so.1" in backends["ort-cuda"]["reason"]


ASK = """
import ctypes, json, sys
from pathlib import Path
from pytest_quant.backends.ort import libraries

# A stub of the driver has no device to tell of.
libraries.ask_driver = lambda *_: (("00",), "")
for library in sorted(Path(sys.argv[1]).glob("lib*.so*[0-9]")):
    ctypes.CDLL(str(library))
found = {name: libraries.find_provider(name) for name in (libraries.CUDA, libraries.TENSORRT)}
print(json.dumps({
    name: dict(available=one.available, broken=one.broken, reason=one.reason, fix=one.fix)
    for name, one in found.items()
}))
"""


@pytest.fixture(scope="module")
def libraries(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """A folder with stubs of CUDA's libraries, and stubs of TensorRT's elsewhere."""
    require_compiler()
    folder = tmp_path_factory.mktemp("nvidia")
    capi = next(wheel.parents[1].glob("lib/python*/site-packages/onnxruntime/capi"))
    compile_for((capi / f"libonnxruntime_providers_{name}.so" for name in ("cuda", "tensorrt")), folder)
    apart = tmp_path_factory.mktemp("tensorrt")
    tensorrt = [library.rename(apart / library.name) for library in folder.glob("libnv*.so.*[0-9]")]
    assert tensorrt
    return folder, tensorrt


def providers(wheel: Path, folder: Path, *path: Path) -> dict[str, dict[str, Any]]:
    """Ask for both providers where the libraries in `folder` are loaded; `path` lies in front of what is installed."""
    places = os.pathsep.join(map(str, (*path, ROOT)))
    environment = os.environ | {"PYTHONPATH": places}
    ran = subprocess.run([wheel, "-c", ASK, folder], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, dict[str, Any]] = json.loads(ran.stdout.splitlines()[-1])
    return answer


def test_cuda_loads_and_tensorrt_is_missing(wheel: Path, libraries: tuple[Path, list[Path]]) -> None:
    """With CUDA's libraries its provider loads; TensorRT's names the library of the version that it was linked with."""
    found = providers(wheel, libraries[0])
    assert found["CUDAExecutionProvider"]["available"], found
    tensorrt = found["TensorrtExecutionProvider"]
    assert (tensorrt["available"], tensorrt["broken"]) == (False, False)
    assert tensorrt["reason"] == "TensorrtExecutionProvider wants libnvinfer.so.10, and no TensorRT is installed"
    assert tensorrt["fix"] == 'pip install "tensorrt<11"'


def test_tensorrt_from_its_wheel(wheel: Path, libraries: tuple[Path, list[Path]], tmp_path: Path) -> None:
    """Its provider wants libnvinfer.so.10, to which it has no path: importing ``tensorrt`` loads it, and both load."""
    folder, tensorrt = libraries
    package = write_tensorrt(tmp_path / "site", "10.16.1")
    for library in tensorrt:
        (package / library.name).symlink_to(library)
    found = providers(wheel, folder, package.parent)
    assert found["TensorrtExecutionProvider"]["available"], found
    assert found["CUDAExecutionProvider"]["available"], found


def test_tensorrt_11_is_no_use(wheel: Path, libraries: tuple[Path, list[Path]], tmp_path: Path) -> None:
    """It is here and another version is wanted: an error that names both, and the line that installs the other."""
    package = write_tensorrt(tmp_path / "site", "11.4.0")
    tensorrt = providers(wheel, libraries[0], package.parent)["TensorrtExecutionProvider"]
    assert (tensorrt["available"], tensorrt["broken"]) == (False, True)
    assert "wants libnvinfer.so.10, and TensorRT 11.4.0 is installed" in tensorrt["reason"]
    assert tensorrt["fix"] == 'pip install "tensorrt<11"'


OPEN = """
import ctypes, json, sys
from pathlib import Path
import onnxruntime

for library in sorted(Path(sys.argv[1]).glob("lib*.so*[0-9]")):
    ctypes.CDLL(str(library))
settings = onnxruntime.SessionOptions()
settings.log_severity_level = 4
onnxruntime.set_default_logger_severity(4)
try:
    asked = [("CUDAExecutionProvider", json.loads(sys.argv[3]))]
    onnxruntime.InferenceSession(sys.argv[2], settings, providers=asked, enable_fallback=0)
except Exception as error:
    print(error)
"""


def refusal(wheel: Path, folder: Path, model: Path, options: dict[str, str]) -> str:
    """Return why the real CUDA provider refuses a session with these options; it always does without a device."""
    command = [str(wheel), "-c", OPEN, str(folder), str(model), json.dumps(options)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_options_of_cuda_are_its_own(wheel: Path, libraries: tuple[Path, list[Path]], tmp_path: Path) -> None:
    """The provider reads all of ours and goes on to ask for a device; it names one that it does not know."""
    model = models.select_first(tmp_path / "model.onnx")
    clock = DeviceClock(HostMemory(), 123456, [])
    (asked,) = on_stream(clock, [Provider(CUDA, CUDA_OPTIONS)])
    # The stub tells of no device, so that none has a number.
    ours = {name: value for name, value in asked.options.items() if name != "device_id"} | {"enable_cuda_graph": "1"}
    assert {"use_tf32", "has_user_compute_stream", "user_compute_stream"} <= ours.keys()
    assert "cudaSetDevice" in refusal(wheel, libraries[0], model, ours)
    assert 'Unknown provider option: "use_tf33"' in refusal(wheel, libraries[0], model, {**ours, "use_tf33": "0"})


def test_the_options_of_tensorrt_are_its_own(wheel: Path) -> None:
    """Its provider has the name of every option that it is given; it cannot be asked without TensorRT."""
    file = "lib/python*/site-packages/onnxruntime/capi/libonnxruntime_providers_tensorrt.so"
    names = next(wheel.parents[1].glob(file)).read_bytes()
    spec = EngineSpec("ort-trt", "int8", "static", Model("net"), options=(("ranges", "table"), ("workspace_mb", 3)))
    clock = DeviceClock(HostMemory(), 123456, [])
    shapes, _ = profile_options({"x": ((1, 2), (1, 2), (1, 2))})
    options = {**provider_options(spec, Path()), **shapes, LISTS_LAYERS: "1"}
    (asked,) = on_stream(clock, [Provider(TENSORRT, options)])
    wanted = {name for name in asked.options if name != "device_id"}
    assert len(wanted) > 10
    assert not [name for name in wanted if name.encode() not in names]
    assert b"trt_no_such_option" not in names
