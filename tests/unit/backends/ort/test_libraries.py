"""Libraries of GPU providers, by the real loader: what is missing, and TensorRT's loaded by its own package.

The libraries are stubs that were compiled here, and the package ``tensorrt`` one that loads them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_quant.backends.ort.libraries import CUDA, TENSORRT, load_provider, loading_trouble
from tests.support.stub_libraries import compile_library, require_compiler, write_tensorrt

ROOT = Path(__file__).parents[4]

ASK = """
import json, sys
from pathlib import Path
from pytest_quant.backends.ort.libraries import TENSORRT, load_provider

found = load_provider(TENSORRT, Path(sys.argv[1]))
imported = "tensorrt" in sys.modules
print(json.dumps(dict(
    loads=found is None, imported=imported, reason=found and found.reason, fix=found and found.fix,
    broken=found and found.broken,
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
    assert ask(runtime, package.parent) == {
        "loads": True,
        "imported": True,
        "reason": None,
        "fix": None,
        "broken": None,
    }


def test_no_tensorrt(runtime: Path) -> None:
    """Not installed is no error; the library that the real loader misses is named, and the version to install."""
    found = ask(runtime)
    assert (found["loads"], found["broken"]) == (False, False)
    assert found["reason"] == f"{TENSORRT} wants libnvinfer.so.10, and no TensorRT is installed"
    assert found["fix"] == 'pip install "tensorrt<11"'


def test_another_major_version_is_not_imported(runtime: Path, tmp_path: Path) -> None:
    """Version 11 is no use: both versions are named, and the fix pins the one that is wanted."""
    package = write_tensorrt(tmp_path / "site", "11.4.0")
    found = ask(runtime, package.parent)
    assert (found["loads"], found["imported"], found["broken"]) == (False, False, True)
    assert found["reason"] == f"{TENSORRT} wants libnvinfer.so.10, and TensorRT 11.4.0 is installed"
    assert found["fix"] == 'pip install "tensorrt<11"'


def test_a_wheel_that_crashes_ends_another_process(runtime: Path, tmp_path: Path) -> None:
    """It is broken, with the signal; this process lives to say so."""
    package = write_tensorrt(tmp_path / "site", "10.16.1", more="import os; os.abort()")
    found = ask(runtime, package.parent)
    assert (found["loads"], found["imported"], found["broken"]) == (False, False, True)
    assert "wants libnvinfer.so.10, and tensorrt did not load: it crashed (SIGABRT)" in str(found["reason"])


def test_a_package_without_its_libraries(runtime: Path, tmp_path: Path) -> None:
    """It imports and the provider still does not load: the loader's words are quoted."""
    package = write_tensorrt(tmp_path / "site", "10.16.1")
    found = ask(runtime, package.parent)
    assert (found["loads"], found["broken"]) == (False, True)
    assert "does not load: libnvinfer.so.10: cannot open" in str(found["reason"])


def test_a_cuda_library_that_is_missing(tmp_path: Path) -> None:
    """With a driver here it is broken, and the loader's own words are quoted; TensorRT is not asked for."""
    require_compiler()
    capi = tmp_path / "onnxruntime" / "capi"
    (tmp_path / "nvidia").mkdir()
    capi.mkdir(parents=True)
    cudnn = compile_library(tmp_path / "nvidia" / "libcudnn_no_such.so.9")
    compile_library(capi / "libonnxruntime_providers_cuda.so", needs=[cudnn])
    found = load_provider(CUDA, capi.parent)
    assert found is not None
    assert found.broken
    assert "libcudnn_no_such.so.9: cannot open" in found.reason
    assert "onnxruntime-gpu[cuda,cudnn]" in found.fix


def test_the_loaders_words() -> None:
    """A library that is not there gives them, one that is gives nothing."""
    assert "cannot open shared object file" in loading_trouble("libno_such_library.so.1")
    assert loading_trouble("libc.so.6") == ""
