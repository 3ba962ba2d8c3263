"""Read-backs of ONNX Runtime, recorded where vectors are 512 bits wide."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.backends.ort.engine import count_coverage
from pytest_quant.backends.ort.macs import CONVERSIONS, INT8_OPS, NARROW_OPS, read_profile
from tests.recorded_isa import RECORDED

CONV, DENSE = 8 * 36 * 9, 288 * 10
SHARES = {
    "conv_fp32_None": 100.0,
    "conv_int8_static": 100.0,
    "conv_int8_dynamic": 100.0 * DENSE / (CONV + DENSE),
    "conv_int4_weight-only": 100.0 * DENSE / (CONV + DENSE),
    "dense_fp32_None": 100.0,
    "dense_int8_static": 100.0,
    "dense_int8_dynamic": 100.0,
    "dense_int4_weight-only": 100.0,
}
"""From the shapes of the examples: dynamic and weight-only schemes leave the convolution in float."""


@pytest.mark.parametrize("name", SHARES)
def test_shares_are_those_of_the_source(name: str) -> None:
    """Eight channels count as eight, whatever the width of a vector."""
    nodes = read_profile(RECORDED / "amx_int8" / f"ort_{name}.profile.json")
    found = count_coverage(nodes, name.split("_")[1])
    assert (found.unit, found.opaque_nodes) == ("MACs", 0)
    assert found.pct == pytest.approx(SHARES[name])


@pytest.mark.parametrize("name", [name for name in SHARES if name.startswith("conv")])
def test_the_layout_that_is_not_read_back_changes_no_precision(name: str) -> None:
    """A user's session blocks float convolutions; integer kernels and conversions are those of the one read back."""

    def integers(file: Path) -> list[tuple[str, str]]:
        kinds = INT8_OPS | NARROW_OPS | CONVERSIONS
        return sorted((node.name, node.op_type) for node in read_profile(file) if node.op_type in kinds)

    as_run = RECORDED / "avx512_vnni" / f"ort_{name}.as_run.json"
    assert integers(as_run) == integers(RECORDED / "amx_int8" / f"ort_{name}.profile.json")
    padded = [node for node in read_profile(as_run) if node.name == "r_nchwc"]
    assert [node.outputs[0].shape for node in padded] == ([] if "static" in name else [(1, 16, 6, 6)])
