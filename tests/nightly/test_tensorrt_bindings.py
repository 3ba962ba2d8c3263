"""The real bindings of TensorRT 10 and 11 have our calls, and what each option asks of the builder."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.backends import trt
from pytest_quant.backends.trt.build import request_for
from pytest_quant.backends.trt.options import TrtOptions
from pytest_quant.readers import keys_of
from pytest_quant.spec import EngineSpec
from pytest_quant.testing.conformance.examples import dense
from tests.support import tensorrt_bindings
from tests.support.tensorrt_bindings import Bindings

ASKED: dict[str, object] = {
    "workspace_mb": 64,
    "optimization_level": 1,
    "timing_cache": "timing",
    "tf32": True,
    "quantization": "implicit",
}
"""Options that the builder hears of; implicit INT8 with FP16 beside it ended with version 10."""

ELSEWHERE = {"compute_capability", "max_batch", "shapes", "beside", "memory", "libraries"}
"""Decide the target of TensorRT-RTX, the profile, the graph, the run and the plugins."""

ASK = """
import json, pickle, sys
from pathlib import Path
import tensorrt as trt
from pytest_quant.backends.trt.build import configure, network_flags
from pytest_quant.errors import BuildError


class Asked:
    def __init__(self, real, calls):
        self.__dict__.update(real=real, calls=calls)

    def __setattr__(self, name, value):
        assert hasattr(self.real, name), f"{self.real.__name__} has no {name}"
        self.calls.append(f"{name} = {value}")

    def __getattr__(self, name):
        assert hasattr(self.real, name), f"{self.real.__name__} has no {name}"
        return lambda *values: self.calls.append(f"{name}{values}") or Asked(self.real, self.calls)


calls = []
request = pickle.loads(Path(sys.argv[1]).read_bytes())
try:
    network_flags(trt, request)
    configure(trt, Asked(trt.IBuilderConfig, calls), request)
except BuildError as error:
    calls = [f"refused: {error}"]
print(json.dumps(calls))
"""


@pytest.fixture(scope="module", params=tensorrt_bindings.MAJORS)
def tensorrt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Bindings]:
    """A major version, and its real bindings."""
    folder = tmp_path_factory.mktemp(f"bindings{request.param}")
    return request.param, tensorrt_bindings.install(folder, request.param)


def builder_calls(environment: dict[str, str], folder: Path, options: dict[str, object]) -> list[str]:
    """Return what the builder is told, in the words of the binding."""
    spec = EngineSpec("trt", "int8", "static", dense().write(folder), options=tuple(sorted(options.items())))
    request = request_for(spec, folder / "dense.onnx", module="tensorrt")
    (folder / "request").write_bytes(pickle.dumps(request))
    ended = subprocess.run(
        (sys.executable, "-c", ASK, str(folder / "request")),
        env=environment, capture_output=True, text=True, check=False, timeout=120, cwd=folder,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    calls: Any = json.loads(ended.stdout)
    return list(calls)


def test_each_option_is_something_that_the_binding_has(tensorrt: tuple[int, Bindings], tmp_path: Path) -> None:
    """Flags, levels, pools and attributes are looked up in the binding itself, and each option changes something."""
    major, environment = tensorrt[0], tensorrt[1].environment()
    before = builder_calls(environment, tmp_path, {})
    assert any("TF32" in line and line.startswith("clear_flag") for line in before)
    for name, value in ASKED.items():
        calls = builder_calls(environment, tmp_path, {name: value})
        assert calls != before, name
        refused = [line for line in calls if line.startswith("refused")]
        assert bool(refused) == (name == "quantization" and major == 11), calls


def test_every_option_is_asked_for_or_decides_something_else() -> None:
    """A new one is looked up too, or is known to be no business of the builder."""
    assert set(keys_of(TrtOptions)) == set(ASKED) | ELSEWHERE


def test_every_call_exists_with_those_arguments(tensorrt: tuple[int, Bindings], tmp_path: Path) -> None:
    """In the modules that build, calibrate, run and inspect, by mypy on stubs that are made from the bindings.

    Version 11 has no calibrators, and lacks nothing else.
    """
    major, bindings = tensorrt
    tensorrt_bindings.write_stubs(bindings, tmp_path)
    (tmp_path / "mypy.ini").write_text("[mypy]\n")
    ended = subprocess.run(
        (
            sys.executable, "-m", "mypy", "--strict", "--no-warn-unused-ignores", "--config-file", "mypy.ini",
            "--ignore-missing-imports", "--follow-imports", "silent", "--no-error-summary",
            str(Path(trt.__file__).parent),
        ),
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, "MYPYPATH": "."},
    )  # fmt: skip
    # The stubs' own faults are none of ours.
    wrong = [line for line in ended.stdout.splitlines() if ": error:" in line and "tensorrt/__init__.pyi" not in line]
    missed = {name for line in wrong for name in re.findall(r'has no attribute "(\w+)"', line)}
    assert missed == (set() if major == 10 else {"int8_calibrator", "set_calibration_profile"}), wrong
    assert len(wrong) == len(missed), wrong


OURS = """
import tensorrt as trt
from pytest_quant.backends.cuda.device import make_logger
from pytest_quant.backends.trt.build import register_plugins
from pytest_quant.backends.trt.implicit import ALGORITHMS, make_calibrator
from tests.support.fake_tensorrt import HostMemory

logger = make_logger(trt, [])
assert isinstance(logger, trt.ILogger)
register_plugins(trt, logger, ())
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


def test_the_real_bindings_take_our_logger_and_our_calibrators(tensorrt: tuple[int, Bindings]) -> None:
    """They are classes that derive from those of the bindings, and plugins are registered with such a logger."""
    command = (sys.executable, "-c", OURS)
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=tensorrt[1].environment()
    )
    assert ended.stdout.strip() == "done", ended.stderr
