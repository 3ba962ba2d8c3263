"""What an option of `trt` asks of the builder, looked up in the real bindings of TensorRT 10 and 11."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.backends.trt.build import request_for
from pytest_quant.backends.trt.options import TrtOptions
from pytest_quant.readers import keys_of
from pytest_quant.spec import EngineSpec
from pytest_quant.testing.conformance.examples import dense
from tests.support import tensorrt_bindings

pytestmark = pytest.mark.slow

ASKED: dict[str, object] = {
    "workspace_mb": 64,
    "optimization_level": 1,
    "timing_cache": "timing",
    "version_compatible": True,
    "hardware_compatible": "AMPERE_PLUS",
    "tf32": True,
    "native_instancenorm": False,
    "quantization": "implicit",
}
"""Options that the builder hears of; implicit INT8 with FP16 beside it ended with version 10."""

ELSEWHERE = {"compute_capability", "max_batch", "opt_batch", "shapes", "beside", "cuda_graph", "memory", "ranges"}
"""Decide the target of TensorRT-RTX, the profile, the graph, the run and ONNX Runtime's provider."""

ASK = """
import json, pickle, sys
from pathlib import Path
import tensorrt as trt
from pytest_quant.backends.trt.configure import BuildFailedError, configure, configure_parser, network_flags


class Asked:
    def __init__(self, real, told):
        self.__dict__.update(real=real, told=told)

    def __setattr__(self, name, value):
        assert hasattr(self.real, name), f"{self.real.__name__} has no {name}"
        self.told.append(f"{name} = {value}")

    def __getattr__(self, name):
        assert hasattr(self.real, name), f"{self.real.__name__} has no {name}"
        return lambda *values: self.told.append(f"{name}{values}") or Asked(self.real, self.told)


told = []
request = pickle.loads(Path(sys.argv[1]).read_bytes())
try:
    network_flags(trt, request)
    configure_parser(trt, Asked(trt.OnnxParser, told), request)
    configure(trt, Asked(trt.IBuilderConfig, told), request)
except BuildFailedError as error:
    told = [f"refused: {error}"]
print(json.dumps(told))
"""


@pytest.fixture(scope="module", params=tensorrt_bindings.MAJORS)
def tensorrt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, str]]:
    """A major version, and variables for a process that loads its real bindings."""
    folder = tmp_path_factory.mktemp(f"options{request.param}")
    return request.param, tensorrt_bindings.install(folder, request.param).environment()


def asked(environment: dict[str, str], folder: Path, options: dict[str, object]) -> list[str]:
    """Return what the builder and the parser are told, in the words of the binding."""
    spec = EngineSpec("trt", "int8", "static", dense().write(folder), options=tuple(sorted(options.items())))
    request = request_for(spec, folder / "dense.onnx", module="tensorrt")
    (folder / "request").write_bytes(pickle.dumps(replace(request, target=None)))
    ended = subprocess.run(
        (sys.executable, "-c", ASK, str(folder / "request")),
        env=environment, capture_output=True, text=True, check=False, timeout=120, cwd=folder,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    told: Any = json.loads(ended.stdout)
    return list(told)


def test_each_option_is_something_that_the_binding_has(tensorrt: tuple[int, dict[str, str]], tmp_path: Path) -> None:
    """Flags, levels, pools and attributes are looked up in the binding itself, and each option changes something."""
    major, environment = tensorrt
    before = asked(environment, tmp_path, {})
    assert any("TF32" in line and line.startswith("clear_flag") for line in before)
    for name, value in ASKED.items():
        told = asked(environment, tmp_path, {name: value})
        assert told != before, name
        refused = [line for line in told if line.startswith("refused")]
        assert bool(refused) == (name == "quantization" and major == 11), told


def test_every_option_is_asked_for_or_decides_something_else() -> None:
    """A new one is looked up too, or is known to be no business of the builder."""
    assert set(keys_of(TrtOptions)) == set(ASKED) | ELSEWHERE
