"""Kernels that PyTorch's profiler sees."""

from __future__ import annotations

import pytest

from pytest_quant.backends.readback import Kind
from pytest_quant.backends.torch.engine import kind_of


@pytest.mark.parametrize(
    ("name", "dtype", "precision", "kind"),
    [
        ("onednn::qconv_pointwise", "unsigned char", "int8", Kind.ASKED),
        ("onednn::qconv2d_pointwise", "unsigned char", "int8", Kind.ASKED),
        ("onednn::qlinear_pointwise", "unsigned char", "int8", Kind.ASKED),
        ("onednn::qlinear_pointwise", "unsigned char", "fp32", Kind.OTHER),
        ("mkldnn::_convolution_pointwise", "float", "int8", Kind.OTHER),
        ("mkldnn::_convolution_pointwise", "float", "fp32", Kind.ASKED),
        ("mkldnn::_convolution_pointwise", "c10::BFloat16", "fp32", Kind.OTHER),
        ("mkldnn::_convolution_pointwise", "c10::BFloat16", "bf16", Kind.ASKED),
        ("aten::addmm", "float", "int8", Kind.OTHER),
        ("quantized_decomposed::quantize_per_tensor", "float", "int8", Kind.CONVERSION),
        ("aten::relu", "float", "fp32", Kind.BESIDE),
        ("aten::add", "float", "int8", Kind.BESIDE),
    ],
)
def test_kinds(name: str, dtype: str, precision: str, kind: Kind) -> None:
    """INT8 kernels have names of their own, floats are told apart by the type of what they read."""
    assert kind_of(name, dtype, precision) is kind
