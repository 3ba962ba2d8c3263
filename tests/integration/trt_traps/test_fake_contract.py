"""The fake TensorRT and the fake CUDA against the real bindings: names, parameters, and the values of enumerations."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_quant.backends.cuda import STICKY
from tests.support import tensorrt_bindings
from tests.support.fake_tensorrt import FakeCuda, HostMemory, make
from tests.support.fake_tensorrt.contract import differences, read, read_real

pytestmark = pytest.mark.slow

CUDA_BINDINGS = ("cuda-bindings>=12.6.1", "cuda-pathfinder")


@pytest.fixture(scope="module", params=tensorrt_bindings.MAJORS)
def tensorrt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, str]]:
    """A major version, and variables for a process that loads its real bindings."""
    folder = tmp_path_factory.mktemp(f"bindings{request.param}")
    return request.param, tensorrt_bindings.install(folder, request.param).environment()


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


def fake_of(major: int) -> tuple[SimpleNamespace, dict[str, object], HostMemory]:
    """Return the fake module of that version with an instance of each of its classes, and their device."""
    device = HostMemory()
    module = make(device, major)
    logger = module.ILogger()
    with device.current():
        engine = module.Runtime(logger).deserialize_cuda_engine(b"plan")
        instances: dict[str, object] = {
            "ILogger": logger,
            "IProfiler": module.IProfiler(),
            "Runtime": module.Runtime(logger),
            "ICudaEngine": engine,
            "IExecutionContext": engine.create_execution_context(),
            "EngineInspector": engine.create_engine_inspector(),
        }
    if major < 11:
        instances |= {name: getattr(module, name)() for name in ("IInt8EntropyCalibrator2", "IInt8MinMaxCalibrator")}
    return module, instances, device


def test_the_fake_tensorrt_has_nothing_that_the_real_one_lacks(tensorrt: tuple[int, dict[str, str]]) -> None:
    """Each class, function, attribute and value of the fake exists, with the same parameters in the same order."""
    major, environment = tensorrt
    module, instances, _ = fake_of(major)
    real = read_real("tensorrt", environment)
    assert len(real) > 200
    assert differences(module, real, instances) == []


def test_the_fake_tensorrt_has_nothing_that_tensorrt_rtx_lacks() -> None:
    """The other product has the same API, and is here whole."""
    module, instances, _ = fake_of(11)
    assert differences(module, read(pytest.importorskip("tensorrt_rtx")), instances) == []


def init_plugins(logger: object) -> None:
    """A function of its own."""


OURS = """
import tensorrt as trt
from pytest_quant.backends.cuda.device import make_logger
from pytest_quant.backends.trt.builder import register_plugins
from pytest_quant.backends.trt.implicit import ALGORITHMS, make_calibrator
from tests.support.fake_tensorrt import HostMemory

logger = make_logger(trt, [])
assert isinstance(logger, trt.ILogger)
register_plugins(trt, logger)
try:
    trt.Runtime(logger)
except TypeError as error:
    assert "nullptr" in str(error), error
for method, name in ALGORITHMS.items():
    if int(trt.__version__.partition(".")[0]) < 11:
        device = HostMemory()
        with device.current():
            calibrator = make_calibrator(trt, method, iter(()), device, 3)
        assert isinstance(calibrator, getattr(trt, name)), name
        assert calibrator.get_batch_size() == 3
    else:
        assert not hasattr(trt, name)
print("done")
"""


def test_the_real_bindings_take_our_logger_and_our_calibrators(tensorrt: tuple[int, dict[str, str]]) -> None:
    """They are classes that derive from those of the bindings, and plugins are registered with such a logger."""
    _, environment = tensorrt
    assert _ran(OURS, environment) == "done"


def test_the_fake_cuda_has_nothing_that_the_real_one_lacks(cuda: dict[str, str]) -> None:
    """Functions with their parameters, and the codes that they give."""
    real = read_real("cuda.bindings.runtime", cuda)
    assert differences(_only_cuda(FakeCuda()), real, {}) == []
    spoilt: Any = _only_cuda(FakeCuda())
    spoilt.cudaMalloc = init_plugins
    assert [line.partition(" is ")[0] for line in differences(spoilt, real, {})] == ["cudaMalloc(logger)"]


def _only_cuda(fake: FakeCuda) -> SimpleNamespace:
    """Leave out what the fake offers to the tests and to the fake TensorRT."""
    return SimpleNamespace(**{name: getattr(fake, name) for name in dir(fake) if name.startswith("cuda")})


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

memory = DeviceMemory(Opened(), 0)
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
    "cudaStreamBeginCapture": lambda: memory.capture(0, lambda: None),
    "cudaGraphLaunch": lambda: memory.launch(real.cudaGraphExec_t(0), 0),
    "cudaGraphExecDestroy": lambda: memory.end_graph(real.cudaGraphExec_t(0)),
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
    from pytest_quant.environment.gpu import find_gpus

    if find_gpus():
        pytest.skip("there is a GPU here, whose tests make these calls")
    assert _ran(EACH_CALL, cuda) == "done"


def _ran(code: str, environment: dict[str, str]) -> str:
    ended = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()
