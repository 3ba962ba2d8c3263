"""Options of OpenVINO's backend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.backends.openvino import OpenVinoBackend
from pytest_quant.backends.openvino.recipe import OpenVinoOptions, notes_of, overflow_fix, parse_options
from pytest_quant.environment import has_vnni, onednn_tier
from pytest_quant.errors import UsageError
from pytest_quant.spec import Calibration, EngineSpec, Model


def spec_of(**options: object) -> EngineSpec:
    """A static spec with some options."""
    return EngineSpec("openvino", "int8", "static", Model("net"), options=tuple(sorted(options.items())))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threads", 0),
        ("threads", True),
        ("threads", "2"),
        ("preset", "fast"),
        ("overflow_fix", "auto"),
        ("model_type", "cnn"),
        ("fast_bias_correction", 1),
    ],
)
def test_a_wrong_value_is_refused(name: str, value: object) -> None:
    """The message names the option and what it may be."""
    with pytest.raises(UsageError, match=f"option '{name}' of backend 'openvino' cannot be that"):
        OpenVinoBackend().check(spec_of(**{name: value}))


def test_an_unknown_option_names_the_nearest() -> None:
    """A slip of the pen is not ignored."""
    with pytest.raises(UsageError, match="did you mean 'preset'"):
        OpenVinoBackend().check(spec_of(pre_set="mixed"))


def test_a_calibration_that_nncf_does_not_have() -> None:
    """Entropy is ONNX Runtime's and TensorRT's."""
    with pytest.raises(UsageError, match="backend 'openvino' has no calibration 'entropy'"):
        OpenVinoBackend().check(replace(spec_of(), calibration=Calibration("entropy")))
    OpenVinoBackend().check(replace(spec_of(), calibration=Calibration("percentile", percentile=99.9)))


def test_seven_bits_where_kernels_saturate() -> None:
    """By default as the CPU needs it, which is then said; the user's word wins and is not commented on."""
    assert overflow_fix(OpenVinoOptions()) == ("disable" if has_vnni(onednn_tier()) else "enable")
    assert bool(notes_of(spec_of())) is not has_vnni(onednn_tier())
    assert parse_options([("overflow_fix", "first_layer")]).overflow_fix == "first_layer"
    assert notes_of(spec_of(overflow_fix="enable")) == ()
