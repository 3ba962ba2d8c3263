"""Layers of OpenVINO's runtime model."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.backends.openvino.coverage import (
    PluginLayer,
    SourceGraph,
    count_layers,
    find_computing_type,
    hidden_products,
    kind_of,
    operator_macs,
)
from pytest_quant.backends.readback import Kind
from tests.recorded_isa import RECORDED, layers_in

SIZE = st.integers(1, 9)


def layer_of(kind: str, ran_in: str) -> PluginLayer:
    """A layer that tells no more than its type and precision."""
    return PluginLayer("layer", kind, "", ran_in, (), ())


@pytest.mark.parametrize(
    ("layer", "ran_in", "precision", "kind"),
    [
        ("Convolution", "u8", "int8", Kind.ASKED),
        ("FullyConnected", "i8", "int8", Kind.ASKED),
        ("Convolution", "f32", "int8", Kind.OTHER),
        ("Convolution", "bf16", "int8", Kind.OTHER),
        ("MatMul", "f32", "fp32", Kind.ASKED),
        ("MatMul", "bf16", "fp32", Kind.OTHER),
        ("MatMul", "u8", "fp32", Kind.OTHER),
        ("MatMul", "i32", "int8", Kind.BESIDE),
        ("Reorder", "u8", "int8", Kind.CONVERSION),
        ("FakeQuantize", "u8", "int8", Kind.CONVERSION),
        ("Pooling", "u8", "int8", Kind.BESIDE),
        ("Subgraph", "f32", "int8", Kind.BESIDE),
        ("RNNSeq", "f32", "int8", Kind.OTHER),
        ("If", "u8", "int8", Kind.OPAQUE),
        ("TensorIterator", "f32", "fp32", Kind.OPAQUE),
    ],
)
def test_kinds(layer: str, ran_in: str, precision: str, kind: Kind) -> None:
    """Products count by the precision they ran in; shapes of integers, pooling and conversions are no compute."""
    assert kind_of(layer_of(layer, ran_in), precision, frozenset()) is kind


@pytest.mark.parametrize(
    ("reported", "kernel", "ran_in"),
    [
        ("i8", "brgemm_avx2_f32", "f32"),
        ("i8", "brgemm_avx512_bf16", "bf16"),
        ("u8", "brgconv_avx512_I8", "i8"),
        ("i8", "jit_gemm_i8", "i8"),
        ("u8", "ref_any", "u8"),
        ("f32", "", "f32"),
    ],
)
def test_the_kernel_has_the_last_word(reported: str, kernel: str, ran_in: str) -> None:
    """A float kernel over int8 weights is a float layer; a kernel that names no type leaves the report."""
    assert find_computing_type(reported, kernel) == ran_in


@pytest.mark.parametrize(
    ("ran_in", "precision", "kind"),
    [
        ("f32", "int8", Kind.OTHER),
        ("f32", "fp32", Kind.ASKED),
        ("u8", "int8", Kind.OPAQUE),
        ("i8", "fp32", Kind.OPAQUE),
    ],
)
def test_compute_that_was_fused_away(ran_in: str, precision: str, kind: Kind) -> None:
    """A float subgraph ran its products in float; what one of integers did with them is not known."""
    assert kind_of(layer_of("Subgraph", ran_in), precision, frozenset(), swallows_compute=True) is kind


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize(
    ("reads", "origins"), [(("f32", "i8"), ("first", "bias")), (("f32", "f32"), ("x/fq_output_0", "first"))]
)
def test_a_float_outside_does_not_prove_a_float_inside(
    precision: str, reads: tuple[str, ...], origins: tuple[str, ...]
) -> None:
    """With integer weights among its inputs, or a quantizer that it swallowed, a layer is neither int8 nor float."""
    layer = PluginLayer("y", "Subgraph", "jit_avx512_f32", "f32", origins, reads)
    assert kind_of(layer, precision, frozenset({"x/fq_output_0"}), swallows_compute=True) is Kind.OPAQUE


@given(n=SIZE, channels=SIZE, wide=SIZE, side=SIZE, groups=st.integers(1, 4), kernel=st.integers(1, 3))
def test_macs_of_convolutions(n: int, channels: int, wide: int, side: int, groups: int, kernel: int) -> None:
    """Every output element takes kernel x kernel x channels of its group, however the weights are laid out."""
    image = (n, channels * groups, side, side)
    output = (n, wide * groups, side, side)
    expected = prod(output) * channels * kernel**2
    assert operator_macs("GroupConvolution", (image, (groups, wide, channels, kernel, kernel)), output) == expected
    if groups == 1:
        assert operator_macs("Convolution", (image, (wide, channels, kernel, kernel)), output) == expected


@given(lead=st.lists(SIZE, max_size=2), m=SIZE, k=SIZE, n=SIZE, transposed=st.booleans())
def test_macs_of_products(lead: list[int], m: int, k: int, n: int, transposed: bool) -> None:
    """M x N x K for each matrix of the batch; a transposed second operand changes nothing."""
    second = (*lead, n, k) if transposed else (*lead, k, n)
    for first in ((*lead, m, k), (*lead, k, m)):
        assert operator_macs("MatMul", (first, second), (*lead, m, n)) == prod(lead) * m * n * k


@given(k=SIZE, n=SIZE)
def test_macs_of_vectors(k: int, n: int) -> None:
    """A vector times a matrix, a matrix times a vector, and two vectors."""
    assert operator_macs("MatMul", ((k,), (k, n)), (n,)) == k * n
    assert operator_macs("MatMul", ((n, k), (k,)), (n,)) == k * n
    assert operator_macs("MatMul", ((k,), (k,)), ()) == k


@given(batch=SIZE, steps=SIZE, inputs=SIZE, hidden=SIZE, gates=st.sampled_from([1, 3, 4]), ways=st.integers(1, 2))
def test_macs_of_recurrent_cells(batch: int, steps: int, inputs: int, hidden: int, gates: int, ways: int) -> None:
    """Each step of each sample meets the weights of the input and of the state, for each gate and direction."""
    kind = {1: "RNNSequence", 3: "GRUSequence", 4: "LSTMSequence"}[gates]
    weights = ((ways, gates * hidden, inputs), (ways, gates * hidden, hidden), (ways, gates * hidden))
    states = ((batch, ways, hidden),) * (2 if gates == 4 else 1)
    shapes = ((batch, steps, inputs), *states, (batch,), *weights)
    expected = batch * steps * ways * gates * hidden * (inputs + hidden)
    assert operator_macs(kind, shapes, (batch, ways, steps, hidden)) == expected


@given(lead=SIZE, queries=SIZE, keys=SIZE, width=SIZE, values=SIZE)
def test_macs_of_attention(lead: int, queries: int, keys: int, width: int, values: int) -> None:
    """Scores of every query and key, and their product with the values."""
    shapes = ((lead, queries, width), (lead, keys, width), (lead, keys, values))
    expected = lead * queries * keys * width + lead * queries * keys * values
    assert operator_macs("ScaledDotProductAttention", shapes, (lead, queries, values)) == expected


MACS = {"dense": {"first": 64 * 32, "y": 32 * 10}, "conv": {"conv": 8 * 36 * 9, "dense": 288 * 10}}
"""For one sample, from the shapes of the examples: a weight of a product counts once, of a convolution once a place."""

CALLED = {"dense": ("first", "y"), "conv": ("conv", "y")}
"""OpenVINO calls a node that gives an output of the model like the output."""

QUANTIZERS = frozenset({"x/fq_output_0", "relu/fq_output_0"})
FILES = sorted(
    file for file in RECORDED.glob("*/openvino_*.xml") if re.search(r"_(fp32|int8)_batch\d+$", file.stem) is not None
)


def facts(file: Path) -> tuple[str, str, int]:
    """Example, precision and batch size of a recording."""
    result = re.fullmatch(r"openvino_(\w+)_(fp32|int8)_batch(\d+)", file.stem)
    assert result is not None
    return result[1], result[2], int(result[3])


def source(example: str, batch: int) -> SourceGraph:
    """The compute of an example, from its shapes."""
    each = MACS[example].values()
    return SourceGraph({name: batch * macs for name, macs in zip(CALLED[example], each, strict=True)}, QUANTIZERS)


def identifier(file: Path) -> str:
    """Instruction set and file."""
    return f"{file.parent.name}-{file.stem}"


def test_all_sets_are_here() -> None:
    """Five levels of x86, on which OpenVINO takes four kinds of kernels."""
    assert {file.parent.name for file in FILES} == {"amx_int8", "avx2", "avx512", "avx512_vnni", "avx_vnni"}


@pytest.mark.parametrize("file", FILES, ids=identifier)
def test_what_was_asked_for_ran(file: Path) -> None:
    """All MACs are in the asked precision; where a fused layer hides them, the layers compiled apart tell."""
    example, precision, batch = facts(file)
    layers, compute = layers_in(file), source(example, batch)
    hidden = hidden_products(layers, compute, precision)
    apart = file.with_name(f"{file.stem}_apart.xml")
    if hidden:
        assert precision == "int8"
        alone = count_layers(layers, compute, precision)
        assert (alone.pct, alone.opaque_nodes, alone.float_nodes) == (None, 2, ())
    if hidden and not apart.exists():
        return
    result = count_layers(layers, compute, precision, layers_in(apart) if hidden else ())
    assert (result.pct, result.unit, result.opaque_nodes) == (100.0, "MACs", 0)
    rows = [row for row in result.by_op if row.macs is not None]
    assert sum(row.macs or 0 for row in rows) == batch * sum(MACS[example].values())
    assert bool(result.notes) is bool(hidden)


@pytest.mark.parametrize("file", FILES, ids=identifier)
def test_the_other_precision_did_not_run(file: Path) -> None:
    """The same recording, judged as the precision that it is not: 0, or unknown where a fused layer hides it."""
    example, precision, batch = facts(file)
    other = {"int8": "fp32", "fp32": "int8"}[precision]
    compute = source(example, batch)
    result = count_layers(layers_in(file), compute, other)
    assert result.pct == (None if hidden_products(layers_in(file), compute, other) else 0.0)


def test_layers_of_bytes_are_told_where_four_bits_are_asked() -> None:
    """Recorded int8 layers, judged as int4: what was int8 of them ran in int8, and nothing of the float ones did."""
    for precision in ("int8", "fp32"):
        file = RECORDED / "avx512_vnni" / f"openvino_conv_{precision}_batch4.xml"
        as_int8, as_int4 = (count_layers(layers_in(file), source("conv", 4), each) for each in ("int8", "int4"))
        assert (as_int4.pct, as_int4.int8_pct) == (0.0, as_int8.pct or None)


@pytest.mark.parametrize("example", MACS)
def test_a_float_engine_that_was_left_alone_ran_in_bfloat16(example: str) -> None:
    """Recorded without the hint for float32, on a CPU that has bfloat16: nothing of it is fp32."""
    layers = layers_in(RECORDED / "avx512_vnni" / f"openvino_{example}_unpinned_batch16.xml")
    result = count_layers(layers, source(example, 16), "fp32")
    assert (result.pct, len(result.float_nodes), result.opaque_nodes) == (0.0, 2, 0)


def test_the_fused_network_is_among_them() -> None:
    """With VNNI a whole quantized network is one layer of float outside and integer weights; without, it is not."""
    fused = {
        file.parent.name
        for file in FILES
        if "int8" in file.stem and hidden_products(layers_in(file), source(*facts(file)[::2]), "int8")
    }
    assert fused == {"amx_int8", "avx512_vnni", "avx_vnni"}
