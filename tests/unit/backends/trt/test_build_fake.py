"""What the builder is told, on the names that versions 10 and 11 have, and what a build leaves on disk."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_quant.backends.trt import build
from pytest_quant.backends.trt.build import (
    LOG_FILE,
    BuildRequest,
    build_notes,
    configure,
    keep_timing_cache,
    network_flags,
    next_step,
)
from pytest_quant.backends.trt.options import TrtOptions
from pytest_quant.errors import BuildError
from tests.support.fake_tensorrt import HostMemory, make

IMPLICIT: dict[str, Any] = {"quantization": "implicit", "beside": "fp16"}


def request(model: Path = Path("m.onnx"), calibration: str = "", **options: Any) -> BuildRequest:
    """A build with these options."""
    return BuildRequest("tensorrt", model, TrtOptions(**options), {}, calibration)


class Config:
    """Takes down what it is told."""

    def __init__(self, *, takes_cache: bool = True) -> None:
        self.flags: dict[str, bool] = {}
        self.takes_cache = takes_cache
        self.read = b""

    def set_flag(self, flag: Any) -> None:
        """Take down an order."""
        self.flags[flag.name] = True

    def clear_flag(self, flag: Any) -> None:
        """Take down an order."""
        self.flags[flag.name] = False

    def create_timing_cache(self, serialized: bytes) -> bytes | None:
        """Return what it was given, nothing for what was cut."""
        self.read = serialized
        return None if serialized.endswith(b"cut") else serialized

    def set_timing_cache(self, cache: bytes, ignore_mismatch: bool) -> bool:
        """A mismatch must not be ignored; the binding takes no null."""
        if cache is None:
            raise TypeError("set_timing_cache(): incompatible function arguments")
        assert not ignore_mismatch
        return self.takes_cache

    def get_timing_cache(self) -> Any:
        """Return one with a measurement more."""
        return SimpleNamespace(serialize=lambda: memoryview(self.read + b"+"))


def test_implicit_int8_ended_with_version_10() -> None:
    """There it has no strong types, whose bit differs between versions; with 11 the next step is to do without it."""
    assert [network_flags(make(HostMemory(), major), request()) for major in (10, 11)] == [2, 1]
    assert network_flags(make(HostMemory(), 10), request(calibration="entropy", **IMPLICIT)) == 0
    with pytest.raises(BuildError, match=r"11\.13\.0 has no implicit INT8") as caught:
        network_flags(make(HostMemory(), 11), request(calibration="entropy", **IMPLICIT))
    step = next_step(str(caught.value), {})
    assert "drop quantization='implicit'" in step
    assert "tensorrt<11" in step


@pytest.mark.parametrize(
    ("calibration", "options", "flags"),
    [
        ("", {"tf32": True}, {"TF32": True}),
        ("", {"tf32": False}, {"TF32": False}),
        ("minmax", IMPLICIT, {"TF32": False, "INT8": True, "FP16": True}),
    ],
)
def test_flags_of_the_builder(calibration: str, options: dict[str, Any], flags: dict[str, bool]) -> None:
    """TF32 is set or cleared and never left, for TensorRT has it on; implicit INT8 needs a float type with it."""
    config = Config()
    configure(make(HostMemory()), config, request(calibration=calibration, **options))
    assert config.flags == flags


def test_the_timing_cache_is_read_and_written_back(tmp_path: Path) -> None:
    """The first build starts with none; measurements of another device would choose the wrong kernels."""
    request_with = request(timing_cache=str(tmp_path / "cache"))
    for wanted in (b"", b"+", b"++"):
        config = Config()
        configure(make(HostMemory()), config, request_with)
        keep_timing_cache(config, request_with)
        assert config.read == wanted
    with pytest.raises(BuildError, match="another TensorRT or GPU") as caught:
        configure(make(HostMemory()), Config(takes_cache=False), request_with)
    assert next_step(str(caught.value), {}).startswith("delete that file, or name another")
    (tmp_path / "cache").write_bytes(b"what a full disk cut")
    with pytest.raises(BuildError, match="damaged"):
        configure(make(HostMemory()), Config(), request_with)
    (tmp_path / "cache").unlink()
    configure(make(HostMemory()), Config(), request_with)


def test_fake_builder_that_is_none_is_told_with_its_log() -> None:
    """The binding raises the same error whatever the cause is; plugins, which any graph may name, are there by then."""
    trt = make(HostMemory())
    lines: list[str] = []

    def new_builder(_logger: object) -> None:
        assert trt._machine.plugins
        lines.append("[WARNING] CUDA initialization failure with error: 35. Please check your CUDA installation")
        raise TypeError("pybind11::init(): factory function returned nullptr")

    trt.Builder = new_builder
    with pytest.raises(BuildError, match="CUDA initialization failure with error: 35"):
        build._plan(trt, None, lines, request())


Severity = Enum("Severity", {"INTERNAL_ERROR": 0, "ERROR": 1, "WARNING": 2, "INFO": 3, "VERBOSE": 4})
LINES = 100_000


def test_fake_build_keeps_no_line_for_each_tactic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of the real builder has megabytes of them; tensors without a scale are counted in what is left."""
    trt = make(HostMemory())

    def new_builder(logger: Any) -> SimpleNamespace:
        def build_serialized_network(*_: object) -> bytes:
            for tactic in range(LINES):
                logger.log(Severity.VERBOSE, f"Tactic Name: sm80_xmma_gemm Tactic: 0x{tactic:016x} Time: 0.0123")
            for name in ("a", "b"):
                logger.log(Severity.WARNING, f"Missing scale and zero-point for tensor {name}, expect fall back")
            logger.log(Severity.INFO, "Engine generation completed in 1.2 seconds.")
            return b"plan"

        config = SimpleNamespace(clear_flag=lambda _: None, add_optimization_profile=lambda _: None)
        return SimpleNamespace(
            create_network=lambda _: SimpleNamespace(num_inputs=0),
            create_builder_config=lambda: config,
            create_optimization_profile=SimpleNamespace,
            build_serialized_network=build_serialized_network,
        )

    trt.Builder = new_builder
    trt.OnnxParser = lambda *_: SimpleNamespace(parse_from_file=lambda _: True)
    module = ModuleType("tensorrt")
    module.__dict__.update(vars(trt))
    monkeypatch.setitem(sys.modules, "tensorrt", module)
    build.build(request(tmp_path / "m.onnx"))
    log = tmp_path / LOG_FILE
    assert log.stat().st_size < 1_000_000
    assert log.read_text("utf-8").splitlines()[-1] == "[INFO] Engine generation completed in 1.2 seconds."
    (note,) = build_notes(tmp_path)
    assert note.startswith("2 tensors have no scale")
