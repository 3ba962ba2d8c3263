"""Runtimes and providers: not installed, broken and usable are three things, by the real loader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from pytest_quant.backends import Availability, trt
from pytest_quant.backends import runtime as installed
from pytest_quant.backends.ort import OrtBackend, libraries
from pytest_quant.backends.ort.libraries import TENSORRT, find_provider
from pytest_quant.backends.runtime import wanted_versions
from pytest_quant.backends.trt import TrtRtxBackend
from tests.support.tensorrt_bindings import compile_library, require_compiler, write_tensorrt

ROOT = Path(__file__).parents[4]

ASK = """
import json, sys
from pathlib import Path
from pytest_quant.backends.ort.libraries import TENSORRT, load_provider

fault = load_provider(TENSORRT, Path(sys.argv[1]))
imported = "tensorrt" in sys.modules
print(json.dumps(dict(
    loads=fault is None, imported=imported, reason=fault and fault.reason, fix=fault and fault.fix,
    broken=fault and fault.broken,
)))
"""


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """The folder of a runtime whose TensorRT provider wants libnvinfer.so.10, as the real one does."""
    require_compiler()
    libraries = tmp_path / "nvidia"
    libraries.mkdir()
    nvinfer = compile_library(libraries / "libnvinfer.so.10")
    capi = tmp_path / "onnxruntime" / "capi"
    capi.mkdir(parents=True)
    compile_library(capi / "libonnxruntime_providers_tensorrt.so", needs=[nvinfer])
    return capi.parent


def ask(runtime: Path, *path: Path) -> dict[str, object]:
    """Load the provider in a process of its own, with `path` in front of everything that is installed."""
    places = os.pathsep.join(map(str, (*path, ROOT)))
    ran = subprocess.run(
        [sys.executable, "-c", ASK, str(runtime)],
        env=os.environ | {"PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, object] = json.loads(ran.stdout.splitlines()[-1])
    return answer


def test_tensorrt_from_its_wheel_is_loaded_first(runtime: Path, tmp_path: Path) -> None:
    """The provider has no path to libnvinfer.so.10: it loads once the package that brings it is imported."""
    package = write_tensorrt(tmp_path / "site", "10.16.1")
    compile_library(package / "libnvinfer.so.10")
    result = ask(runtime, package.parent)
    assert (result["loads"], result["imported"], result["reason"]) == (True, True, None)


def test_no_tensorrt(runtime: Path) -> None:
    """Not installed is no error; the library that the real loader misses is named, and the version to install."""
    result = ask(runtime)
    assert (result["loads"], result["broken"]) == (False, False)
    assert result["reason"] == f"{TENSORRT} wants libnvinfer.so.10, and no TensorRT is installed"
    assert result["fix"] == 'pip install "tensorrt<11"'


def test_another_major_version_is_not_imported(runtime: Path, tmp_path: Path) -> None:
    """Version 11 is no use: both versions are named, and the fix pins the one that is wanted."""
    package = write_tensorrt(tmp_path / "site", "11.4.0")
    result = ask(runtime, package.parent)
    assert (result["loads"], result["imported"], result["broken"]) == (False, False, True)
    assert result["reason"] == f"{TENSORRT} wants libnvinfer.so.10, and TensorRT 11.4.0 is installed"
    assert result["fix"] == 'pip install "tensorrt<11"'


def test_a_wheel_that_crashes_ends_another_process(runtime: Path, tmp_path: Path) -> None:
    """It is broken, with the signal; this process lives to say so."""
    package = write_tensorrt(tmp_path / "site", "10.16.1", more="import os; os.abort()")
    result = ask(runtime, package.parent)
    assert (result["loads"], result["imported"], result["broken"]) == (False, False, True)
    assert "wants libnvinfer.so.10, and tensorrt did not load: it crashed (SIGABRT)" in str(result["reason"])


@pytest.mark.parametrize(
    ("wheel", "ask"),
    [
        ("onnxruntime", OrtBackend().availability),
        ("onnxruntime-gpu", OrtBackend().availability),
        ("onnxruntime-gpu", lambda: find_provider("CUDAExecutionProvider")),
        ("onnxruntime", TrtRtxBackend().availability),
    ],
    ids=["ort", "ort on the GPU wheel", "ort-cuda", "trt-rtx"],
)
def test_too_old_by_a_simulated_version_number(
    wheel: str, ask: Callable[[], Availability], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version below what the metadata ask for cannot run, which is no error, and the line brings a newer one."""
    (wanted,) = wanted_versions(wheel)
    old = f"{wanted.version}.dev1"
    for module in (installed, libraries):
        monkeypatch.setattr(module, "installed_version", lambda name: old if name == wheel else "")
    monkeypatch.setattr(trt, "find_spec", lambda _: object())
    result = ask()
    assert (result.available, result.broken) == (False, False)
    assert result.reason == f"{wheel} {old} is too old: {wheel}>={wanted.version} runs"
    extra = "gpu" if wheel == "onnxruntime-gpu" else "ort"
    assert result.fix == f'pip install "pytest-quant[{extra}]"'


def test_an_empty_folder_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As uninstalling one of two onnxruntime wheels leaves it."""
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))
    result = OrtBackend().availability()
    assert (result.available, result.broken) == (False, True)
    assert "without InferenceSession" in result.reason
    assert "--force-reinstall" in result.fix
