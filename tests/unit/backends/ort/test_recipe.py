"""The recipe follows the scheme, the options and the instruction set."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.backends.ort import recipe as module
from pytest_quant.backends.ort.recipe import DYNAMIC, Recipe, excluded_nodes, recipe_of
from pytest_quant.errors import UsageError
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import conv, dense


def _recipe(monkeypatch: pytest.MonkeyPatch, tier: str, scheme: str = "static", **options: object) -> Recipe:
    monkeypatch.setattr(module, "isa_tier", lambda: tier)
    precision = "int4" if scheme == "weight-only" else "int8"
    return recipe_of(EngineSpec("ort", precision, scheme, Model("m", Path("m.onnx")), options=tuple(options.items())))


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
    found = _recipe(monkeypatch, tier)
    assert (found.activation_type, found.weight_type, found.per_channel) == (activation, "int8", True)
    assert found.reduce_range is seven_bits
    assert any(tier in note and "7 bits" in note for note in found.notes) is seven_bits


def test_asked_range_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user asks for is done, without a note."""
    found = _recipe(monkeypatch, "avx2", reduce_range=False)
    assert (found.reduce_range, found.notes) == (False, ())


def test_unsigned_weights_do_not_saturate(monkeypatch: pytest.MonkeyPatch) -> None:
    """uint8 weights run in kernels that widen first, so they keep 8 bits."""
    assert not _recipe(monkeypatch, "avx2", weight_type="uint8").reduce_range


def test_int4_is_symmetric_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of int4 weights are symmetric, activations of int8 are not, and both can be asked for."""
    assert _recipe(monkeypatch, "avx2", "weight-only").symmetric
    assert not _recipe(monkeypatch, "avx2").symmetric
    assert _recipe(monkeypatch, "avx2", symmetric=True).quantizer_extra == {"ActivationSymmetric": True}


def test_static_leaves_arithmetic_in_float(monkeypatch: pytest.MonkeyPatch) -> None:
    """Static takes operators with weights and those that hand values on, and no arithmetic between activations."""
    found = set(_recipe(monkeypatch, "avx2").op_types or ())
    assert {"Conv", "MatMul", "Gemm", "Relu", "MaxPool"} <= found
    assert not found & {"Add", "Mul", "Softmax", "LayerNormalization", "Concat", "Gather"}


def test_dynamic_leaves_convolutions_in_float(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamic takes matrix products; ConvInteger is asked for by name or with all."""
    assert _recipe(monkeypatch, "avx2", "dynamic").op_types == DYNAMIC
    assert "Conv" not in DYNAMIC
    assert _recipe(monkeypatch, "avx2", "dynamic", op_types=["Conv"]).op_types == ("Conv",)
    assert _recipe(monkeypatch, "avx2", "dynamic", op_types="all").op_types is None


def test_extra_is_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of `extra` go to the calibrator or to the quantizer, in their own words."""
    found = _recipe(monkeypatch, "avx2", extra={"CalibTensorRangeSymmetric": True, "QuantizeBias": False})
    assert found.calibrator_extra == {"symmetric": True}
    assert found.quantizer_extra == {"QuantizeBias": False}


def test_a_provider_that_multiplies_by_onednn_follows_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenVINO inside ONNX Runtime, lowered to AVX2, saturates with 8 bits; kernels of the CPU provider do not."""
    monkeypatch.setattr(module, "isa_tier", lambda: "avx512_vnni")
    monkeypatch.setattr(module, "onednn_tier", lambda: "avx2")
    model = Model("m", Path("m.onnx"))
    found = {name: recipe_of(EngineSpec(name, "int8", "static", model)) for name in ("ort", "ort-openvino")}
    assert {name: recipe.reduce_range for name, recipe in found.items()} == {"ort": False, "ort-openvino": True}
    assert "(avx2) has no VNNI" in found["ort-openvino"].notes[0]


def _spec(folder: Path, *names: str) -> EngineSpec:
    return EngineSpec("ort", "int8", "static", dense().write(folder), exclude=names)


def test_fused_and_split_names(tmp_path: Path) -> None:
    """A fused node carries the first name and a suffix; a Gemm that is split again another one."""
    path = tmp_path / "prepared.onnx"
    prepared = dense().proto
    prepared.graph.node[0].name = "first/MatMulAddFusion"
    path.write_bytes(prepared.SerializeToString())
    assert set(excluded_nodes(_spec(tmp_path, "first"), path)) == {
        "first", "first_MatMul", "first/MatMulAddFusion", "first/MatMulAddFusion_MatMul"
    }  # fmt: skip


def test_nodes_of_the_user_are_not_swept_along(tmp_path: Path) -> None:
    """A node of the user's own whose name begins with an excluded one stays quantized."""
    model = dense().proto
    model.graph.node[3].name = "first/second"
    path = tmp_path / "dense.onnx"
    spec = _spec(tmp_path, "first")
    path.write_bytes(model.SerializeToString())
    assert "first/second" not in excluded_nodes(spec, path)


def test_unknown_name(tmp_path: Path) -> None:
    """A name that the model does not have is an error with the nearest one."""
    with pytest.raises(UsageError, match="does not have") as caught:
        excluded_nodes(_spec(tmp_path, "frist"), tmp_path / "dense.onnx")
    assert "did you mean 'first'" in str(caught.value)


def test_nodes_without_names(tmp_path: Path) -> None:
    """A model whose nodes have no names says so."""
    spec = _spec(tmp_path, "first")
    model = conv().proto
    for node in model.graph.node:
        node.name = ""
    (tmp_path / "dense.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UsageError, match="have no names"):
        excluded_nodes(spec, tmp_path / "dense.onnx")
