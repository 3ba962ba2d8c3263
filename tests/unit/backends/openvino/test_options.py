"""Options of OpenVINO's backend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.backends.openvino import OpenVinoBackend, OpenVinoOptions, parse_options
from pytest_quant.backends.openvino.engine import seven_bits_notes
from pytest_quant.environment.machine import has_vnni, onednn_tier
from pytest_quant.errors import UsageError
from pytest_quant.spec import Calibration, EngineSpec, Model


def spec_of(**options: object) -> EngineSpec:
    """A static spec with some options."""
    return EngineSpec("openvino", "int8", "static", Model("net"), options=tuple(sorted(options.items())))


def test_a_calibration_that_nncf_does_not_have() -> None:
    """Entropy is ONNX Runtime's and TensorRT's."""
    with pytest.raises(UsageError, match="backend 'openvino' has no calibration 'entropy'"):
        OpenVinoBackend().check(replace(spec_of(), calibration=Calibration("entropy")))
    OpenVinoBackend().check(replace(spec_of(), calibration=Calibration("percentile", percentile=99.9)))


def test_seven_bits_where_kernels_saturate() -> None:
    """By default as the CPU needs it, which is then said; the user's word wins and is not commented on."""
    assert OpenVinoOptions().seven_bits("") == ("disable" if has_vnni(onednn_tier()) else "enable")
    assert [OpenVinoOptions().seven_bits(cpus) for cpus in ("any", "avx2", "vnni")] == ["enable", "enable", "disable"]
    assert bool(seven_bits_notes(spec_of())) is not has_vnni(onednn_tier())
    assert parse_options([("overflow_fix", "first_layer")]).overflow_fix == "first_layer"
    assert seven_bits_notes(spec_of(overflow_fix="enable")) == ()
