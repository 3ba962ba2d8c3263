"""Layers of OpenVINO as its counters tell them."""

from __future__ import annotations

import pytest

from pytest_quant.backends.openvino.engine import layer_time


@pytest.mark.parametrize(
    ("kind", "kernel", "nodes", "expected"),
    [
        ("Convolution", "brgconv_avx512_I8", ("layer0", "layer1"), ("int8", "compute")),
        ("FullyConnected", "gemm_mlas_f32", ("layer8",), ("fp32", "compute")),
        ("FakeQuantize", "jit_avx512_f32", (), ("fp32", "reformat")),
        ("Reorder", "jit_uni_I8", (), ("int8", "reformat")),
        ("Transpose", "unknown_f32", ("layer4",), ("fp32", "compute")),
        ("Convert", "unknown_bf16", (), ("bf16", "reformat")),
        ("Subgraph", "jit_avx512_f32", (), ("fp32", "other")),
    ],
)
def test_what_a_layer_is(kind: str, kernel: str, nodes: tuple[str, ...], expected: tuple[str, str]) -> None:
    """What OpenVINO adds changes types and layouts; the user's own operator of that name is work."""
    result = layer_time("layer", kind, kernel, 1.5, nodes)
    assert (result.precision, result.role) == expected
    assert (result.name, result.op, result.ms, result.nodes) == ("layer", kind, 1.5, nodes)
