"""Magika, a pretrained file-type model, quantized in one way that works and two that do not."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.quant(model="magika", data="magika_data", max_drop=0.5)

caught = pytest.mark.xfail(strict=True, raises=pytest.fail.Exception)
"""The check must fail on a limit: a crash or a pass turns the suite red."""


@pytest.mark.quant(options={"op_types": ["MatMul", "Conv"]}, min_agreement=99, min_speedup=1.1, min_coverage=90)
def test_static_matmul_and_conv() -> None:
    """The heavy operators in INT8 and the layer norms around them in float: as good, and faster."""


@caught(reason="all operators in INT8: the layer norms cannot bear it")
@pytest.mark.quant(options={"op_types": "all"})
def test_static_everything() -> None:
    """As fast as the one above, and wrong for every second file."""


@caught(reason="dynamic quantization of a convolution runs a slow kernel")
@pytest.mark.quant(scheme="dynamic", options={"op_types": ["MatMul", "Conv"]}, min_speedup=1.0)
def test_dynamic() -> None:
    """As good as FP32, and several times slower."""
