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
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

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


def make_environment(folder: Path, *, beside_cpu_wheel: bool = False) -> Path:
    """Make a virtual environment and return its interpreter.

    Parameters
    ----------
    folder : the folder to make.
    beside_cpu_wheel : the metadata of the CPU wheel are seen too, as where both are installed; its files never are.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site)]
    # A release of both may reach a registry on different days.
    wanted = f"onnxruntime-gpu<={version('onnxruntime')}"
    installed = subprocess.run([*command, "--retries=15", wanted], capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    lines = [str(Path(json.__file__).parents[1]), str(Path(pytest.__file__).parents[1])]
    if not beside_cpu_wheel:
        (site / "hide.py").write_text(_HIDE)
        lines.append("import hide")
    (site / "rest.pth").write_text("\n".join(lines))
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the GPU wheel."""
    return make_environment(tmp_path_factory.mktemp("gpu") / "venv")


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


def examined(python: Path) -> tuple[dict[str, Any], list[str]]:
    """Ask the doctor of that interpreter; return the backends by name, and the problems of overwritten wheels."""
    command = (python, "-c", "from pytest_quant.cli import main; main()", "doctor", "--json")
    ended = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600, check=False
    )
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    problems = [problem["fix"] for problem in document["problems"] if "overwrite" in problem["what"]]
    return {state["name"]: state for state in document["backends"]}, problems


@pytest.mark.usefixtures("no_driver")
def test_the_doctor_knows_each_wheel(wheel: Path) -> None:
    """Of the CPU wheel it says what brings the other; of the GPU wheel that the driver is missing."""
    backends, problems = examined(Path(sys.executable))
    assert (backends["ort"]["state"], backends["ort-cuda"]["state"], problems) == ("ok", "missing", [])
    assert backends["ort-cuda"]["fix"] == 'pip uninstall -y onnxruntime && pip install "onnxruntime-gpu[cuda,cudnn]"'
    backends, problems = examined(wheel)
    assert (backends["ort"]["state"], problems) == ("ok", [])
    assert "no NVIDIA driver here (libcuda.so.1" in backends["ort-cuda"]["reason"]


def test_the_doctor_tells_of_both_wheels(tmp_path: Path) -> None:
    """A problem of the machine and of each backend on a GPU, with lines that leave one wheel."""
    backends, problems = examined(make_environment(tmp_path / "venv", beside_cpu_wheel=True))
    assert problems == ['pip uninstall -y onnxruntime onnxruntime-gpu && pip install "pytest-quant[gpu]"']
    for name in ("ort-cuda", "ort-trt"):
        assert backends[name]["state"] == "broken"
        assert "are both installed" in backends[name]["reason"]


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


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
(FLOOR,) = (
    part.version for one in map(Requirement, EXTRAS["ort"]) if one.name == "onnxruntime" for part in one.specifier
)


OLD = [
    pytest.param(f"onnxruntime<{FLOOR}", id="the last that is too old"),
    pytest.param(
        "onnxruntime<1.17",
        id="one that does not load beside numpy 2",
        marks=pytest.mark.skipif(sys.version_info >= (3, 12), reason="such an old one has wheels up to Python 3.11"),
    ),
]


@pytest.fixture(scope="module", params=OLD)
def old_runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with an old wheel in front of everything else that is installed here."""
    folder = tmp_path_factory.mktemp("old") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary=:all:", "--target", str(site)]
    subprocess.run([*command, request.param], check=True, capture_output=True)
    (site / "rest.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    return folder / "bin" / "python"


@pytest.mark.parametrize(("arguments", "outcome"), [((), "1 skipped"), (("--quant-require=ort",), "1 failed")])
def test_too_old_is_unavailable(old_runtime: Path, tmp_path: Path, arguments: tuple[str, ...], outcome: str) -> None:
    """The check is UNAVAILABLE, and a failure only where the backend is required; no traceback in either case."""
    result, (check,) = run_elsewhere(old_runtime, tmp_path, "max_drop=5.0", "-rs", *arguments)
    said = result.stdout
    assert outcome in said
    assert "Traceback" not in said
    assert f"is too old: onnxruntime>={FLOOR} runs" in said
    assert 'pip install "pytest-quant[ort]"' in said
    assert check["status"] == "UNAVAILABLE"
