"""The real cuda-bindings take our calls; they need no driver to be loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pytest_quant.backends.cuda import STICKY
from pytest_quant.environment.gpu import find_gpus

CUDA_BINDINGS = ("cuda-bindings>=12.6.1", "cuda-pathfinder")


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables for a process that loads the real cuda-bindings, which need no driver to be loaded."""
    folder = tmp_path_factory.mktemp("cuda")
    command = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *CUDA_BINDINGS)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if ended.returncode:
        pytest.skip(f"{CUDA_BINDINGS[0]} could not be installed: {ended.stderr.strip()[-200:]}")
    paths = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": paths}


STICKY_CODES = """
from cuda.bindings.runtime import cudaError_t
said = {code.name: " ".join((code.__doc__ or "").split()) for code in cudaError_t}
marks = ("leaves the process in an inconsistent state", "must be terminated and relaunched")
print(" ".join(name for name, text in said.items() if any(mark in text for mark in marks)))
"""


def test_errors_that_cuda_does_not_recover_from_are_those_that_it_names(cuda: dict[str, str]) -> None:
    """By the documentation of each code."""
    named = set(_ran(STICKY_CODES, cuda).split())
    assert "cudaErrorIllegalAddress" in named
    assert named == STICKY


EACH_CALL = """
import numpy as np
from importlib import import_module
from pytest_quant.backends.cuda import DeviceMemory
from pytest_quant.errors import BuildError

real = import_module("cuda.bindings.runtime")

class Opened:
    cudaSetDevice = staticmethod(lambda index: (real.cudaError_t.cudaSuccess,))
    def __getattr__(self, name):
        return getattr(real, name)

driver = import_module("cuda.bindings.driver")

class Driver:
    # Without a driver these are refused.
    def __getattr__(self, name):
        assert getattr(driver, name)
        return lambda *context: (None, driver.CUcontext(0))

memory = DeviceMemory(Opened(), Driver(), 0)
array = np.zeros(4, np.float32)
calls = {
    "cudaMalloc": lambda: memory.allocate(16),
    "cudaFree": lambda: memory.free(4096),
    "cudaHostAlloc": lambda: memory.lock(16),
    "cudaFreeHost": lambda: memory.unlock(array),
    "cudaMemcpyAsync": lambda: (memory.copy_in(4096, array, 0)),
    "cudaStreamCreate": memory.new_stream,
    "cudaStreamDestroy": lambda: memory.end_stream(0),
    "cudaStreamSynchronize": lambda: memory.wait(0),
    "cudaEventCreate": memory.new_event,
    "cudaEventDestroy": lambda: memory.end_event(real.cudaEvent_t(0)),
    "cudaEventRecord": lambda: memory.record(real.cudaEvent_t(0), 0),
    "cudaEventSynchronize": lambda: memory.between_ms(real.cudaEvent_t(0), real.cudaEvent_t(0)),
}
for name, call in calls.items():
    try:
        call()
    except BuildError as error:
        assert f"{name}: cudaError" in str(error), (name, str(error))
    else:
        raise AssertionError(name)
print("done")
"""


def test_the_real_cuda_takes_our_arguments(cuda: dict[str, str]) -> None:
    """Without a driver each call converts its arguments and is then refused, with a code and a text of CUDA's own."""
    if find_gpus():
        pytest.skip("there is a GPU here, whose tests make these calls")
    assert _ran(EACH_CALL, cuda) == "done"


def _ran(code: str, environment: dict[str, str]) -> str:
    ended = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()
