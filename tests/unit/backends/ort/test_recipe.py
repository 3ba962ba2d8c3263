"""The recipe follows the scheme, the options and the instruction set; what else is offered follows the mark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from pytest_quant.backends import get_backend
from pytest_quant.backends.ort import OrtBackend
from pytest_quant.backends.ort import recipe as module
from pytest_quant.backends.ort.macs import FLOAT_OPS, INT8_OPS, NARROW_OPS, ONNX_OPS
from pytest_quant.backends.ort.openvino import OrtOpenVinoBackend
from pytest_quant.backends.ort.recipe import excluded_nodes, find_left_nodes, notes_of, recipe_of
from pytest_quant.errors import UsageError
from pytest_quant.spec import Calibration, EngineSpec, Model
from pytest_quant.testing.conformance.examples import dense
from tests.integration.test_advice import dead_channel, one_large_channel, recurrent

pytest.importorskip("onnxruntime")


def _asked(scheme: str = "static", **options: object) -> EngineSpec:
    precision = "int4" if scheme == "weight-only" else "int8"
    return EngineSpec("ort", precision, scheme, Model("m", Path("m.onnx")), options=tuple(options.items()))


@pytest.mark.parametrize(
    ("tier", "activation", "seven_bits"),
    [
        ("avx2", "uint8", True),
        ("avx512", "uint8", True),
        ("avx512_vnni", "uint8", False),
        ("avx_vnni", "uint8", False),
        ("amx_int8", "uint8", False),
        ("neon", "int8", False),
        ("dotprod", "int8", False),
    ],
)
def test_defaults_by_machine(monkeypatch: pytest.MonkeyPatch, tier: str, activation: str, seven_bits: bool) -> None:
    """x86 takes uint8 activations, ARM int8; weights have 7 bits where kernels saturate, and a note says so."""
    monkeypatch.setattr(module, "isa_tier", lambda: tier)
    result = recipe_of(_asked())
    assert (result.activation_type, result.weight_type, result.per_channel) == (activation, "int8", True)
    assert result.reduce_range is seven_bits
    assert any(tier in note and "7 bits" in note for note in notes_of(_asked())) is seven_bits


@pytest.mark.parametrize("options", [{"reduce_range": False}, {"weight_type": "uint8"}])
def test_weights_keep_eight_bits(monkeypatch: pytest.MonkeyPatch, options: dict[str, object]) -> None:
    """Where the user asks for it, and where they are unsigned: their kernels widen first. No note is needed."""
    monkeypatch.setattr(module, "isa_tier", lambda: "avx2")
    spec = replace(_asked(), options=tuple(options.items()))
    assert not recipe_of(spec).reduce_range
    assert notes_of(spec) == ()


def test_int4_is_symmetric_by_default() -> None:
    """Blocks of int4 weights are symmetric, activations of int8 are not, and both can be asked for."""
    assert recipe_of(_asked("weight-only")).symmetric
    assert not recipe_of(_asked()).symmetric
    assert recipe_of(_asked(symmetric=True)).quantizer_extra == {"ActivationSymmetric": True}


def test_static_leaves_arithmetic_in_float() -> None:
    """Static takes operators with weights and those that hand values on, and no arithmetic between activations."""
    result = set(recipe_of(_asked()).op_types or ())
    assert {"Conv", "MatMul", "Gemm", "Relu", "MaxPool"} <= result
    assert not result & {"Add", "Mul", "Softmax", "LayerNormalization", "Concat", "Gather"}


def test_extra_goes_to_the_quantizer() -> None:
    """Keys of `extra` stand beside what other options say in the quantizer's own words."""
    result = recipe_of(_asked(extra={"QuantizeBias": False}, symmetric=True))
    assert result.quantizer_extra == {"ActivationSymmetric": True, "QuantizeBias": False}


def test_a_provider_that_multiplies_by_onednn_follows_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenVINO inside ONNX Runtime, lowered to AVX2, saturates with 8 bits; kernels of the CPU provider do not."""
    monkeypatch.setattr(module, "isa_tier", lambda: "avx512_vnni")
    monkeypatch.setattr(module, "onednn_tier", lambda: "avx2")
    model = Model("m", Path("m.onnx"))
    ours, theirs = (EngineSpec(name, "int8", "static", model) for name in ("ort", "ort-openvino"))
    assert (recipe_of(ours).reduce_range, recipe_of(theirs).reduce_range) == (False, True)
    assert "(avx2) has no VNNI" in notes_of(theirs)[0]


def _excluding(folder: Path, *names: str) -> EngineSpec:
    return EngineSpec("ort", "int8", "static", dense().write(folder), exclude=names)


def test_fused_and_split_names(tmp_path: Path) -> None:
    """A fused node carries the first name and a suffix; a Gemm that is split again another one."""
    path = tmp_path / "prepared.onnx"
    prepared = dense().proto
    prepared.graph.node[0].name = "first/MatMulAddFusion"
    path.write_bytes(prepared.SerializeToString())
    assert set(excluded_nodes(_excluding(tmp_path, "first"), path)) == {
        "first", "first_MatMul", "first/MatMulAddFusion", "first/MatMulAddFusion_MatMul"
    }  # fmt: skip


def test_nodes_of_the_user_are_not_swept_along(tmp_path: Path) -> None:
    """A node of the user's own whose name begins with an excluded one stays quantized."""
    model = dense().proto
    model.graph.node[3].name = "first/second"
    path = tmp_path / "dense.onnx"
    spec = _excluding(tmp_path, "first")
    path.write_bytes(model.SerializeToString())
    assert "first/second" not in excluded_nodes(spec, path)


def test_unknown_name(tmp_path: Path) -> None:
    """A name that the model does not have is an error with the nearest one."""
    with pytest.raises(UsageError, match="does not have") as caught:
        excluded_nodes(_excluding(tmp_path, "frist"), tmp_path / "dense.onnx")
    assert "did you mean 'first'" in str(caught.value)


def _spec(path: Path, scheme: str = "static", precision: str = "int8", **changes: object) -> EngineSpec:
    return EngineSpec("ort", precision, scheme, Model.from_onnx(path), **changes)  # type: ignore[arg-type]


def _pastes(spec: EngineSpec) -> list[str]:
    return [remedy.paste for remedy in OrtBackend().remedies(spec)]


def test_the_ranges_that_the_mark_asks_for_are_not_offered(tmp_path: Path) -> None:
    """The others are, with what else the mark says about the calibration."""
    one_large_channel(tmp_path / "net.onnx")
    result = _pastes(_spec(tmp_path / "net.onnx", calibration=Calibration("entropy", samples=50)))
    assert "calibration={'method': 'percentile', 'samples': 50}" in result
    assert "calibration={'samples': 50}" in result
    assert not any("entropy" in paste for paste in result)


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
    result = [remedy.paste for remedy in OrtOpenVinoBackend().remedies(_spec(tmp_path / "lstm.onnx"))]
    assert result
    assert not any(paste.startswith("scheme=") for paste in result)


def test_openvino_offers_its_own_words(tmp_path: Path) -> None:
    """A preset, behind kernels that do not saturate where they might; no entropy, and nothing that the mark says."""
    pytest.importorskip("openvino")
    one_large_channel(tmp_path / "net.onnx")
    backend = get_backend("openvino")
    spec = EngineSpec("openvino", "int8", "static", Model.from_onnx(tmp_path / "net.onnx"))
    mixed = EngineSpec("openvino", "int8", "static", spec.model, options=(("preset", "mixed"),))
    result, others = ([remedy.paste for remedy in backend.remedies(one_spec)] for one_spec in (spec, mixed))
    assert next(paste for paste in result if "overflow_fix" not in paste) == "options={'preset': 'mixed'}"
    assert not any("entropy" in paste or "transformer" in paste for paste in result)
    assert "options={'preset': 'mixed'}" not in others


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


_BESIDE_PRODUCTS = """
<ir_version: 9, opset_import: ["" : 17]>
g (float[n, 4] x) => (float[n, 4] y, float[n, 4] z)
<float two = {2}, float[3, 4] table = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, int64[2] rows = {0, 1}>
{
    [of_one] r = Relu (x)
    [of_a_number] y = Mul (r, two)
    [of_rows] t = Gather (table, rows)
    [of_a_row] s = ReduceSum <keepdims = 1> (t)
    z = Add (x, s)
}
"""


@pytest.mark.parametrize(
    ("scheme", "op_types"),
    [("static", "all"), ("dynamic", ["MatMul", "Gather"]), ("weight-only", ["MatMul", "Gather"])],
)
def test_what_is_no_product_is_never_left_for_its_weights(scheme: str, op_types: object) -> None:
    """It may have one input, a number as the second, or a table whose rows are picked by constant integers."""
    spec = _asked(scheme, op_types=op_types)
    assert find_left_nodes(spec, onnx.parser.parse_model(_BESIDE_PRODUCTS).graph) == []
