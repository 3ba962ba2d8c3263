"""Subgraphs that a provider compiled into one node."""

from __future__ import annotations

import pytest

from pytest_quant.backends.ort.engine import count_coverage
from pytest_quant.backends.ort.macs import RanNode


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize(
    ("op_type", "provider"),
    [
        ("TRTKernel_graph_main_123_0", "TensorrtExecutionProvider"),
        ("OpenVINOExecutionProvider_123_0", "OpenVINOExecutionProvider"),
        ("SomeExecutionProvider_7", "SomeExecutionProvider"),
    ],
)
def test_nothing_is_known_of_them(op_type: str, provider: str, precision: str) -> None:
    """They are counted as opaque and give no share in any precision, neither 0 nor 100 %."""
    found = count_coverage([RanNode("fused", op_type, provider, (), ())], precision)
    assert found.pct is None
    assert found.opaque_nodes == 1
    assert found.provider == provider
