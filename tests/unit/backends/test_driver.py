"""A wheel for a CUDA that the driver does not have, told before it is loaded; on a stub of the driver's libraries."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.backends import runtime
from pytest_quant.backends import torch as torch_backend
from pytest_quant.backends.cuda import device
from pytest_quant.backends.ort import libraries
from pytest_quant.backends.ort.libraries import CUDA, TENSORRT
from pytest_quant.backends.runtime import driver_too_old
from pytest_quant.environment.machine import version
from tests.support.nvml_stub import NvmlStub, StubCard
from tests.support.third_party import forget_modules


@pytest.fixture
def old_driver(nvml_stub: NvmlStub) -> Iterator[NvmlStub]:
    """A card with a driver that has CUDA 12.4; what is known of packages is forgotten around the test."""
    nvml_stub.play(StubCard(), driver="550.54.15", cuda_version=12040)
    forget()
    yield nvml_stub
    forget()


def forget() -> None:
    """Let the next question look for distributions, for CUDA's packages, and for TensorRT in another process."""
    version.cache_clear()
    device.probe_native.cache_clear()
    forget_modules("cuda")


def plant(folder: Path, monkeypatch: pytest.MonkeyPatch, packages: dict[str, str], modules: dict[str, str]) -> None:
    """Install distributions by name and version, and modules by file and text, in front of everything that is here."""
    for name, number in packages.items():
        about = folder / f"{name.replace('-', '_')}-{number}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
    for file, text in modules.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    importlib.invalidate_caches()
    forget()


def test_stub_driver_with_an_older_cuda_is_told_with_the_first_that_has_it(old_driver: NvmlStub) -> None:
    """Driver, its CUDA, the wheels that want more and what else would do; those that run with it are not named."""
    assert old_driver
    wheels = {"a 1.0": "13.0", "b 2.0": "12.9", "c 3.0": "", "d 4.0": "13.2"}
    result = driver_too_old(wheels, "a wheel for CUDA 12")
    assert result is not None
    assert (result.available, result.broken) == (False, False)
    assert result.reason == "driver 550.54.15 has CUDA 12.4, and a 1.0 and d 4.0 want 13"
    assert result.fix == "driver 580 or later, or a wheel for CUDA 12"


@given(st.integers(11, 14), st.integers(0, 9), st.lists(st.integers(11, 15), max_size=4))
def test_fake_driver_runs_every_minor_version_of_its_major(major: int, minor: int, wanted: list[int]) -> None:
    """CUDA's rule since 11: a wheel is refused if and only if its major version is above the driver's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "driver_cuda", lambda: ("1.0", major * 1000 + minor * 10))
        result = driver_too_old({f"wheel {place}": f"{each}.9" for place, each in enumerate(wanted)}, "")
    assert (result is not None) == any(each > major for each in wanted)


@pytest.mark.parametrize("provider", [CUDA, TENSORRT])
def test_stub_driver_refuses_the_wheel_of_onnxruntime_before_its_libraries(
    old_driver: NvmlStub, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    """`libcuda` loads and lists devices on such a driver, so that everything else seems to be here."""
    assert old_driver
    loaded: list[str] = []
    wheel = SimpleNamespace(
        __version__="1.31.1",
        __file__="onnxruntime/__init__.py",
        cuda_version="13.0",
        preload_dlls=lambda: loaded.append("preloaded"),
        get_available_providers=lambda: [TENSORRT, CUDA],
    )
    monkeypatch.setitem(sys.modules, "onnxruntime", wheel)
    monkeypatch.setattr(libraries, "find_spec", lambda _: True)
    monkeypatch.setattr(libraries, "installed_version", {"onnxruntime-gpu": "1.31.1"}.get)
    monkeypatch.setattr(libraries, "find_loading_error", lambda _: "")
    monkeypatch.setattr(libraries, "load_provider", lambda *_: loaded.append("provider"))
    monkeypatch.setattr(libraries, "ask_driver", lambda *_: (("00",), ""))
    result = libraries.find_provider(provider)
    assert (result.available, result.broken, loaded) == (False, False, [])
    assert result.reason == "driver 550.54.15 has CUDA 12.4, and onnxruntime-gpu 1.31.1 wants 13"
    assert result.fix == "driver 580 or later, or its wheel for CUDA 12: pytest-quant guide gpu"


def test_stub_driver_refuses_torch(old_driver: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which says what it was built for."""
    assert old_driver
    torch = SimpleNamespace(__version__="2.11.0", version=SimpleNamespace(cuda="13.0"))
    monkeypatch.setattr(torch_backend, "import_torch", lambda: torch)
    result = torch_backend.TorchCudaBackend().availability()
    assert result.reason == "driver 550.54.15 has CUDA 12.4, and torch 2.11.0 wants 13"
    assert result.fix.startswith("driver 580 or later, or install torch for an older CUDA, see ")


def test_on_a_machine_with_a_fake_gpu_torch_is_available(old_driver: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is what a machine without is told to do."""
    assert old_driver
    gpus: list[str] = []
    cuda = SimpleNamespace(is_available=lambda: bool(gpus), get_device_name=lambda place: gpus[place])
    torch = SimpleNamespace(__version__="2.11.0", version=SimpleNamespace(cuda="12.4"), cuda=cuda)
    monkeypatch.setattr(torch_backend, "import_torch", lambda: torch)
    backend = torch_backend.TorchCudaBackend()
    assert backend.availability().fix == "run it on a machine with an NVIDIA GPU; nvidia-smi shows it"
    gpus.append("A GPU")
    result = backend.availability()
    assert (result.available, result.device) == (True, "cuda:0 A GPU")


@pytest.mark.parametrize("distribution", ["tensorrt-cu13", "tensorrt-cu13-bindings"])
def test_stub_driver_refuses_tensorrt_before_it_is_loaded(
    old_driver: NvmlStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distribution: str
) -> None:
    """The extra with the wheels for CUDA 12 is told; with them the same driver is no hindrance."""
    assert old_driver
    plant(tmp_path, monkeypatch, {distribution: "11.4.0"}, {"tensorrt.py": "raise ImportError('loaded')"})
    result = device.find_native()
    assert (result.available, result.broken) == (False, False)
    assert result.reason == f"driver 550.54.15 has CUDA 12.4, and {distribution} 11.4.0 wants 13"
    assert result.fix == 'driver 580 or later, or in a new environment pip install "pytest-quant[trt-cu12]"'
    plant(tmp_path, monkeypatch, {"tensorrt-cu12": "11.4.0"}, {})
    assert "loaded" in device.find_native().reason


def test_stub_driver_refuses_cuda_bindings_of_a_newer_cuda(
    old_driver: NvmlStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold the runtime of their own version; pycuda, where it is here too, is made for the CUDA that it met."""
    assert old_driver
    loads = "__version__ = '10.13.0'\nclass ILogger:\n    def __init__(self): pass\ndef Runtime(logger): pass\n"
    packages = {"tensorrt-cu12": "10.13.0", "cuda-bindings": "13.5.0"}
    plant(tmp_path, monkeypatch, packages, {"tensorrt.py": loads, "cuda/bindings/runtime.py": ""})
    result = device.find_native()
    assert result.reason == "driver 550.54.15 has CUDA 12.4, and cuda-bindings 13.5.0 wants 13"
    assert result.fix == 'driver 580 or later, or pip install "cuda-bindings<13"'
    plant(tmp_path, monkeypatch, {}, {"pycuda/__init__.py": ""})
    assert device.find_native().available
