"""Layers of OpenVINO's runtime model."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.backends.openvino.coverage import computed_in, kind_of, macs
from pytest_quant.backends.tally import Kind

SIZE = st.integers(1, 9)


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
    assert kind_of(layer, ran_in, precision) is kind


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
    assert computed_in(reported, kernel) == ran_in


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
    assert kind_of("Subgraph", ran_in, precision, swallows_compute=True) is kind


@given(n=SIZE, channels=SIZE, wide=SIZE, side=SIZE, groups=st.integers(1, 4), kernel=st.integers(1, 3))
def test_macs_of_convolutions(n: int, channels: int, wide: int, side: int, groups: int, kernel: int) -> None:
    """Every output element takes kernel x kernel x channels of its group, however the weights are laid out."""
    image = (n, channels * groups, side, side)
    output = (n, wide * groups, side, side)
    expected = prod(output) * channels * kernel**2
    assert macs("Convolution", [image, (groups, wide, channels, kernel, kernel)], output) == expected
    if groups == 1:
        assert macs("Convolution", [image, (wide, channels, kernel, kernel)], output) == expected


@given(lead=st.lists(SIZE, max_size=2), m=SIZE, k=SIZE, n=SIZE, transposed=st.booleans())
def test_macs_of_products(lead: list[int], m: int, k: int, n: int, transposed: bool) -> None:
    """M x N x K for each matrix of the batch; a transposed second operand changes nothing."""
    second = (*lead, n, k) if transposed else (*lead, k, n)
    assert macs("MatMul", [(*lead, m, k), second], (*lead, m, n)) == prod(lead) * m * n * k
    assert macs("FullyConnected", [(*lead, m, k), (n, k)], (*lead, m, n)) == prod(lead) * m * n * k


def test_shapes_that_do_not_tell() -> None:
    """A recurrent layer's MACs are not guessed."""
    assert macs("LSTMSequence", [(1, 2, 3)], (1, 2, 3)) is None
