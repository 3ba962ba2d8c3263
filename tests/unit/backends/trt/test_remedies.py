"""What else the TensorRT backends offer where a limit is broken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.backends.trt import TrtBackend, TrtRtxBackend
from pytest_quant.backends.trt.provider import OrtTrtBackend
from pytest_quant.spec import EngineSpec
from pytest_quant.testing.conformance.examples import dense


@pytest.mark.parametrize("backend", [TrtBackend(), TrtRtxBackend(), OrtTrtBackend()], ids=lambda one: one.name)
def test_other_ranges_keep_the_options_of_tensorrt(backend: TrtRtxBackend, tmp_path: Path) -> None:
    """The same engine but for the calibration: the target and the batch stay, and ONNX Runtime's options stay out."""
    options = (("compute_capability", "SM89"), ("max_batch", 8))
    spec = EngineSpec(backend.name, "int8", "static", dense().write(tmp_path), options=options)
    found = [remedy.spec for remedy in backend.remedies(spec)]
    assert {one.calibration.method for one in found} == {"entropy", "percentile"}
    assert {replace(one, calibration=spec.calibration) for one in found} == {spec}
