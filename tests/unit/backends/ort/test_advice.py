"""What ONNX Runtime's quantizers offer depends on the mark, the scheme and the model; nothing is offered twice."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")

from pytest_quant.backends import get_backend
from pytest_quant.backends.ort import OrtBackend
from pytest_quant.backends.ort.macs import FLOAT_OPS, INT8_OPS, NARROW_OPS, ONNX_OPS
from pytest_quant.backends.ort.openvino import OrtOpenVinoBackend
from pytest_quant.spec import Calibration, EngineSpec, Model
from tests.integration.advised import dead_channel, one_large_channel, recurrent


def _spec(path: Path, scheme: str = "static", precision: str = "int8", **changes: object) -> EngineSpec:
    return EngineSpec("ort", precision, scheme, Model.from_onnx(path), **changes)  # type: ignore[arg-type]


def _pastes(spec: EngineSpec) -> list[str]:
    return [remedy.paste for remedy in OrtBackend().remedies(spec)]


def test_the_ranges_that_the_mark_asks_for_are_not_offered(tmp_path: Path) -> None:
    """The others are, with what else the mark says about the calibration."""
    one_large_channel(tmp_path / "net.onnx")
    found = _pastes(_spec(tmp_path / "net.onnx", calibration=Calibration("entropy", samples=50)))
    assert "calibration={'method': 'percentile', 'samples': 50}" in found
    assert "calibration={'samples': 50}" in found
    assert not any("entropy" in paste for paste in found)


def test_scales_for_each_channel_are_offered_where_the_mark_turned_them_off(tmp_path: Path) -> None:
    """They are the default."""
    dead_channel(tmp_path / "net.onnx")
    off = _spec(tmp_path / "net.onnx", options=(("per_channel", False), ("threads", 2)))
    assert "options={'per_channel': True, 'threads': 2}" in _pastes(off)
    assert not any("per_channel" in paste for paste in _pastes(_spec(tmp_path / "net.onnx")))


def test_another_scheme_is_offered_where_it_takes_something(tmp_path: Path) -> None:
    """Dynamic quantization takes an LSTM and matrix products; a model of convolutions gains nothing by it."""
    recurrent(tmp_path / "lstm.onnx")
    dead_channel(tmp_path / "conv.onnx")
    assert "scheme='dynamic'" in _pastes(_spec(tmp_path / "lstm.onnx"))
    assert "scheme='dynamic'" not in _pastes(_spec(tmp_path / "conv.onnx"))
    assert "scheme='dynamic'" not in _pastes(_spec(tmp_path / "lstm.onnx", scheme="dynamic"))


def test_a_backend_without_the_scheme_does_not_offer_it(tmp_path: Path) -> None:
    """ort-openvino has static and qat."""
    recurrent(tmp_path / "lstm.onnx")
    found = [remedy.paste for remedy in OrtOpenVinoBackend().remedies(_spec(tmp_path / "lstm.onnx"))]
    assert found
    assert not any(paste.startswith("scheme=") for paste in found)


def test_openvino_offers_its_own_words(tmp_path: Path) -> None:
    """A preset, and no entropy, which NNCF does not have; nothing that the mark says."""
    pytest.importorskip("openvino")
    one_large_channel(tmp_path / "net.onnx")
    backend = get_backend("openvino")
    spec = EngineSpec("openvino", "int8", "static", Model.from_onnx(tmp_path / "net.onnx"))
    mixed = EngineSpec("openvino", "int8", "static", spec.model, options=(("preset", "mixed"),))
    found, others = ([remedy.paste for remedy in backend.remedies(one_spec)] for one_spec in (spec, mixed))
    assert found[0] == "options={'preset': 'mixed'}"
    assert not any("entropy" in paste or "transformer" in paste for paste in found)
    assert "options={'preset': 'mixed'}" not in others


def test_weights_of_four_bits_are_offered_smaller_blocks(tmp_path: Path) -> None:
    """Unless they are the smallest."""
    one_large_channel(tmp_path / "net.onnx")
    assert "options={'block_size': 16}" in _pastes(_spec(tmp_path / "net.onnx", "weight-only", "int4"))
    smallest = _spec(tmp_path / "net.onnx", "weight-only", "int4", options=(("block_size", 16),))
    assert not any("block_size': 16}" in paste for paste in _pastes(smallest) if "symmetric" not in paste)


def test_a_model_that_arrives_quantized_has_no_remedy(tmp_path: Path) -> None:
    """It was quantized elsewhere."""
    one_large_channel(tmp_path / "net.onnx")
    spec = _spec(tmp_path / "net.onnx", "qat")
    assert (_pastes(spec), OrtBackend().quantized_nodes(spec)) == ([], ())


def test_nodes_are_those_that_the_scheme_takes_and_the_mark_does_not_exclude(tmp_path: Path) -> None:
    """In the graph's order; what hands 8-bit values on rounds nothing for itself."""
    one_large_channel(tmp_path / "net.onnx")
    backend = OrtBackend()
    assert backend.quantized_nodes(_spec(tmp_path / "net.onnx")) == ("fc1", "fc2", "fc3", "fc4")
    assert backend.quantized_nodes(_spec(tmp_path / "net.onnx", exclude=("fc2",))) == ("fc1", "fc3", "fc4")
    recurrent(tmp_path / "lstm.onnx")
    assert backend.quantized_nodes(_spec(tmp_path / "lstm.onnx", scheme="dynamic")) == ("lstm", "head")


def test_every_operator_of_the_runtime_has_its_name_in_the_model() -> None:
    """What computes in integers or packed weights stands for a float operator that a mark can name."""
    assert INT8_OPS | NARROW_OPS | {name for name in FLOAT_OPS if "Fused" in name} <= ONNX_OPS.keys()
    assert set(ONNX_OPS.values()) <= FLOAT_OPS - ONNX_OPS.keys()
