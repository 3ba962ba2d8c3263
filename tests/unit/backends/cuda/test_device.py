"""Whether native TensorRT is here: asked in another process, and explained."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends.cuda import OutOfMemoryError
from pytest_quant.backends.cuda import device as find
from pytest_quant.environment.gpu import Gpu
from pytest_quant.environment.machine import version
from pytest_quant.errors import BackendUnavailable, BuildError
from tests.support.third_party import forget_modules

GPU = Gpu("A GPU", "SM89", 1e4, "550.1")


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    """The answer is kept for a process; each test asks for itself."""
    find.probe_native.cache_clear()
    find._open_memory.cache_clear()
    yield
    find.probe_native.cache_clear()
    find._open_memory.cache_clear()
    forget_modules("cuda", "pycuda")


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for a package called tensorrt, seen by this process and by those it starts."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.delitem(sys.modules, "tensorrt", raising=False)
    importlib.invalidate_caches()
    return tmp_path / "tensorrt.py"


LOADS = """
__version__ = "10.13.0"
class ILogger:
    def __init__(self): pass
class Runtime:
    def __init__(self, logger): pass
"""


def test_a_missing_library_is_named_beside_what_is_installed(plant: Path) -> None:
    """The binding raises ImportError, not ModuleNotFoundError, so installed is not loadable."""
    plant.write_text(
        "raise ImportError('libnvinfer.so.11: cannot open shared object file: No such file or directory')\n"
    )
    result = find.find_native()
    assert (result.available, result.broken) == (False, True)
    assert "libnvinfer.so.11: cannot open" in result.reason
    assert "no distribution of TensorRT" in result.reason
    assert result.fix.startswith("pip install --force-reinstall tensorrt, ")
    about = plant.with_name("tensorrt_cu12-10.13.0.dist-info")
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorrt-cu12\nVersion: 10.13.0\n")
    importlib.invalidate_caches()
    version.cache_clear()
    find.probe_native.cache_clear()
    # That of another toolkit would be installed beside it.
    assert find.find_native().fix.startswith("pip install --force-reinstall tensorrt-cu12, ")
    version.cache_clear()


def test_a_crash_while_loading_ends_another_process(plant: Path) -> None:
    """The one that asked lives to name the signal."""
    plant.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    result = find.find_native()
    assert result.broken
    assert "SIGSEGV" in result.reason


def test_it_loads_and_there_is_no_gpu(plant: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorRT fails then, which is no fault of the installation: it is missing a device, and not broken."""
    plant.write_text(LOADS.replace("pass\n", "raise TypeError('factory function returned nullptr')\n"))
    monkeypatch.setattr(find, "cuda_gpus", lambda: ((), "there is no NVIDIA GPU here"))
    result = find.find_native()
    assert (result.available, result.broken) == (False, False)
    assert "no NVIDIA GPU here" in result.reason
    assert "10.13.0" in result.reason


def test_it_loads_on_a_gpu(plant: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version and device are told, once a library for device memory is there too."""
    plant.write_text(LOADS)
    monkeypatch.setattr(find, "cuda_gpus", lambda: ((GPU,), ""))
    plant.with_name("pycuda.py").write_text("")
    result = find.find_native()
    assert (result.available, result.version) == (True, "10.13.0")
    assert "SM89" in result.device


NO_DRIVER = """
__version__ = "10.13.0"
class ILogger:
    def __init__(self): pass
class Runtime:
    def __init__(self, logger):
        logger.log("Severity.WARNING", "Unable to determine GPU memory usage: CUDA driver version is insufficient")
        logger.log("Severity.WARNING", "CUDA initialization failure with error: 35. Please check your CUDA")
        raise TypeError("pybind11::init(): factory function returned nullptr")
"""


def test_fake_runtime_that_is_none_is_told_with_its_log(plant: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The binding raises the same error whatever the cause is; the cause is in the log, and no wheel is at fault."""
    plant.write_text(NO_DRIVER)
    monkeypatch.setattr(find, "cuda_gpus", lambda: ((GPU,), ""))
    result = find.find_native()
    assert result.broken
    assert "CUDA initialization failure with error: 35" in result.reason
    assert "nullptr" not in result.reason
    assert "force-reinstall" not in result.fix
    assert "nvidia-smi" in result.fix
    assert "pytest-quant[trt-cu12]" in result.fix


def test_a_gpu_without_a_library_for_its_memory(plant: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorRT computes on addresses that somebody else must make. Other packages of NVIDIA bring a `cuda` as well."""
    plant.write_text(LOADS)
    package = plant.with_name("cuda") / "pathfinder"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    importlib.invalidate_caches()
    monkeypatch.setattr(find, "cuda_gpus", lambda: ((GPU,), ""))
    result = find.find_native()
    assert not result.available
    assert result.reason == "neither cuda-bindings nor pycuda is installed"
    assert result.fix == "pip install cuda-bindings"
    with pytest.raises(BackendUnavailable, match="library for device memory") as caught:
        find.open_device()
    assert "pip install cuda-bindings" in str(caught.value)


CUDA = """
from types import SimpleNamespace as S
cudaError_t = S(cudaSuccess=0)
def cudaSetDevice(index): return (0,)
"""

PYCUDA = """
from types import SimpleNamespace as S
Error = MemoryError = RuntimeError
retained = []
def init(): pass
class Device:
    def __init__(self, index): pass
    def retain_primary_context(self):
        retained.append(1)
        return S()
"""


def test_cuda_bindings_is_chosen_before_pycuda(plant: Path) -> None:
    """It is what NVIDIA's own samples use, and needs no compiler."""
    file = plant.with_name("cuda") / "bindings" / "runtime.py"
    file.parent.mkdir(parents=True)
    file.write_text(CUDA)
    file.with_name("driver.py").write_text("def cuCtxGetCurrent(): return 0, 0\n")
    _plant_pycuda(plant)
    assert find.open_device().name == "cuda-bindings"
    assert find.open_device(library="pycuda").name == "pycuda"


def test_a_library_that_is_named_and_missing_is_not_replaced(plant: Path) -> None:
    """The line that installs it is told."""
    _plant_pycuda(plant)
    with pytest.raises(BackendUnavailable, match="cuda-bindings is asked for") as caught:
        find.open_device(library="cuda-bindings")
    assert "pip install cuda-bindings" in str(caught.value)


WORKING = """
import numpy as np
class Error(Exception): pass
class MemoryError(Error): pass
given_back, blocks = [], {}
class Context:
    pop = staticmethod(lambda: given_back.append("context"))
class Device:
    def __init__(self, index): pass
    def retain_primary_context(self):
        class Retained:
            push = staticmethod(lambda: None)
        return Retained()
def init(): pass
class Allocation:
    def __init__(self, number): self.number = number
    def __int__(self): return self.number
    def free(self): given_back.append(self.number)
def mem_alloc(size_bytes):
    if size_bytes > 100:
        raise MemoryError("cuMemAlloc failed: out of memory")
    number = 1000 + len(blocks)
    blocks[number] = bytearray(size_bytes)
    return Allocation(number)
def mem_get_info(): return 100_000, 200_000
class Locked(np.ndarray):
    def free(self): given_back.append("locked")
def pagelocked_empty(size_bytes, kind): return np.zeros(size_bytes, kind).view(Locked)[:]
class Stream:
    handle = 7
    def synchronize(self):
        if blocks.get("bad"):
            raise Error("cuStreamSynchronize failed: an illegal memory access was encountered")
class Event:
    def record(self, stream): self.at = len(given_back)
    def synchronize(self): pass
    def time_till(self, other): return 2.5
def memcpy_htod_async(address, array, stream): blocks[address][:] = array.tobytes()
def memcpy_dtoh_async(array, address, stream): array[:] = np.frombuffer(blocks[address], array.dtype)
"""


def test_fake_pycuda_does_what_cuda_bindings_do(plant: Path) -> None:
    """Memory there and back, times, what is given back, and both kinds of errors."""
    _plant_pycuda(plant)
    (plant.with_name("pycuda") / "driver.py").write_text(WORKING)
    memory = find.open_device(library="pycuda")
    driver = importlib.import_module("pycuda.driver")
    sent = np.arange(8, dtype=np.uint8)
    with memory.current():
        stream, address, locked = memory.new_stream(), memory.allocate(8), memory.lock(8)
        first, last = memory.new_event(), memory.new_event()
        memory.record(first, stream)
        memory.copy_in(address, sent, stream)
        memory.copy_out(locked, address, stream)
        memory.record(last, stream)
        memory.wait(stream)
        assert (memory.between_ms(first, last), locked.tolist()) == (2.5, sent.tolist())
        with pytest.raises(OutOfMemoryError, match="out of memory") as caught:
            memory.allocate(2_000_000)
        assert caught.value.value == "cudaMalloc of 2.0 MB, while 0.1 MB of 0.2 MB of the GPU are free"
        memory.unlock(locked)
        memory.free(address)
        memory.end_event(first)
        driver.blocks["bad"] = True
        with pytest.raises(BuildError, match="can no longer use the GPU"):
            memory.wait(stream)
        memory.end_stream(stream)
    assert driver.given_back == ["locked", address, "context"]
    with pytest.raises(BuildError, match="can no longer use the GPU"):
        memory.check()


def test_a_process_has_one_object_for_a_device(plant: Path) -> None:
    """With pycuda each would retain the primary context once more, and no engine would give it back."""
    _plant_pycuda(plant)
    assert find.open_device() is find.open_device(0) is find.open_device(library="pycuda")
    assert find.open_device().name == "pycuda"
    assert importlib.import_module("pycuda.driver").retained == [1]


AT_THE_END = """
from pytest_quant.backends.cuda.device import open_device
open_device()
print("open")
"""


def test_the_context_is_given_back_before_modules_go(plant: Path) -> None:
    """What pycuda does when it gives its context back needs its own module; left to the end it warns of dead ones."""
    _plant_pycuda(plant)
    driver = plant.with_name("pycuda") / "driver.py"
    driver.write_text(driver.read_text() + RELEASED)
    ended = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["open", "released", "whole"]
    assert ended.stderr == ""


RELEASED = """
class S:
    def __del__(self):
        import sys
        print("released", "whole" if sys.modules is not None and not sys.is_finalizing() else "late")
"""


def _plant_pycuda(plant: Path) -> None:
    package = plant.with_name("pycuda")
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "driver.py").write_text(PYCUDA)
    importlib.invalidate_caches()
