"""What a build leaves on disk, by a fake TensorRT that logs as much as the real one does."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from pytest_quant.backends.trt import builder
from pytest_quant.backends.trt.configure import LOG_FILE, BuildRequest
from pytest_quant.backends.trt.run_builder import build_notes
from tests.support.fake_tensorrt import HostMemory, make

Severity = Enum("Severity", {"INTERNAL_ERROR": 0, "ERROR": 1, "WARNING": 2, "INFO": 3, "VERBOSE": 4})
LINES = 100_000


@pytest.fixture
def talkative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuildRequest:
    """A build by a builder that logs every tactic which it times, and warns of two tensors."""
    trt = make(HostMemory())

    def new_builder(logger: object) -> SimpleNamespace:
        def build_serialized_network(*_: object) -> bytes:
            for tactic in range(LINES):
                logger.log(Severity.VERBOSE, f"Tactic Name: sm80_xmma_gemm Tactic: 0x{tactic:016x} Time: 0.0123")  # type: ignore[attr-defined]
            for name in ("a", "b"):
                logger.log(Severity.WARNING, f"Missing scale and zero-point for tensor {name}, expect fall back")  # type: ignore[attr-defined]
            logger.log(Severity.INFO, "Engine generation completed in 1.2 seconds.")  # type: ignore[attr-defined]
            return b"plan"

        network = SimpleNamespace(num_inputs=0)
        config = SimpleNamespace(clear_flag=lambda _: None, add_optimization_profile=lambda _: None)
        return SimpleNamespace(
            create_network=lambda _: network,
            create_builder_config=lambda: config,
            create_optimization_profile=SimpleNamespace,
            build_serialized_network=build_serialized_network,
        )

    trt.Builder = new_builder
    trt.OnnxParser = lambda *_: SimpleNamespace(parse_from_file=lambda _: True)
    module = ModuleType("tensorrt")
    module.__dict__.update(vars(trt))
    monkeypatch.setitem(sys.modules, "tensorrt", module)
    return BuildRequest("tensorrt", "m.onnx", str(tmp_path), None, None, None)


def test_fake_build_keeps_no_line_for_each_tactic(talkative: BuildRequest) -> None:
    """A log of the real builder has tens of megabytes of them, and lies in the cache as long as the plan does."""
    builder.build(talkative)
    log = Path(talkative.folder) / LOG_FILE
    assert log.stat().st_size < 1_000_000
    assert log.read_text("utf-8").splitlines()[-1] == "[INFO] Engine generation completed in 1.2 seconds."


def test_fake_build_counts_tensors_without_a_scale_once(talkative: BuildRequest) -> None:
    """An engine is opened five times in a check, and none of them reads the log."""
    builder.build(replace(talkative))
    (Path(talkative.folder) / LOG_FILE).unlink()
    (note,) = build_notes(Path(talkative.folder))
    assert note.startswith("2 tensors have no scale")
