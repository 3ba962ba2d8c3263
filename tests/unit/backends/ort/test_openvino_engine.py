"""Which kernels count, in which precision, and what stays unseen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_quant.backends.ort.libraries import OPENVINO
from pytest_quant.backends.ort.macs import Operand, RanNode
from pytest_quant.backends.ort.openvino_engine import Kernel, count_kernels, kernel_kind, read_kernels
from pytest_quant.backends.ort.products import Product
from pytest_quant.backends.readback import Kind

CONV = Product("conv", ("c",), 900)
DENSE = Product("dense", ("y",), 100)


def event(name: str, layer: str, implementation: str, **changes: str) -> dict[str, object]:
    """One event as the plugin writes it."""
    arguments = {"ep": OPENVINO, "ov_node_type": layer, "ov_exec_type": implementation, "ov_status": "EXECUTED"}
    return {"cat": "Kernel", "name": f"OV::{name}", "args": arguments | changes}


def test_kernels_are_read(tmp_path: Path) -> None:
    """The precision is the last part of the implementation; what did not run or is not the plugin's is left out."""
    events = [
        {"cat": "Session", "name": "model_run", "args": {}},
        {"cat": "Node", "name": "fused_kernel_time", "args": {"op_name": "x", "provider": OPENVINO}},
        event("conv/WithoutBiases", "Convolution", "brgconv_avx512_I8"),
        event("y", "FullyConnected", "gemm_mlas_f32"),
        event("relu", "Eltwise", "undef", ov_status="OPTIMIZED_OUT"),
        event("other", "Convolution", "x_f32", ep="SomeOtherProvider"),
    ]
    file = tmp_path / "run.json"
    file.write_text(json.dumps(events))
    assert read_kernels(file) == [
        Kernel("conv/WithoutBiases", "Convolution", "i8"),
        Kernel("y", "FullyConnected", "f32"),
    ]


@pytest.mark.parametrize(
    ("layer", "ran_in", "precision", "kind"),
    [
        ("Convolution", "f32", "fp32", Kind.ASKED),
        ("Convolution", "bf16", "fp32", Kind.OTHER),
        ("Convolution", "i8", "fp32", Kind.OTHER),
        ("FullyConnectedQuantizedLegacy", "i8", "int8", Kind.ASKED),
        ("GroupConvolution", "i8", "int8", Kind.ASKED),
        ("GroupConvolution", "f32", "int8", Kind.OTHER),
        ("MatMul", "u8", "int8", Kind.ASKED),
        ("MatMul", "f32", "int8", Kind.OTHER),
        ("MatMul", "i64", "int8", Kind.BESIDE),
        ("FakeQuantize", "f32", "int8", Kind.CONVERSION),
        ("Reorder", "i8", "int8", Kind.CONVERSION),
        ("Pooling", "i8", "int8", Kind.BESIDE),
        ("Subgraph", "i8", "int8", Kind.BESIDE),
    ],
)
def test_what_a_kernel_means(layer: str, ran_in: str, precision: str, kind: Kind) -> None:
    """Products count by the precision they ran in; bfloat16 is not the float32 that was asked for."""
    assert kernel_kind(Kernel("k", layer, ran_in), precision) is kind


def test_weighted_by_macs() -> None:
    """A convolution of 900 in int8 and a dense layer of 100 in float are 90 %, and the dense layer is named."""
    kernels = [Kernel("conv/WithoutBiases", "Convolution", "i8"), Kernel("y", "FullyConnected", "f32")]
    found = count_kernels(kernels, [], [CONV, DENSE], "int8")
    assert (found.pct, found.unit) == (90.0, "MACs")
    assert found.float_nodes == ("dense",)
    assert (found.provider, found.opaque_nodes) == (OPENVINO, 0)


def test_names_do_not_run_together() -> None:
    """``conv`` does not answer for ``conv2``; without its MACs all are counted by nodes."""
    kernels = [Kernel("conv2", "Convolution", "i8"), Kernel("y", "FullyConnected", "f32")]
    found = count_kernels(kernels, [], [CONV, DENSE], "int8")
    assert (found.pct, found.unit) == (50.0, "nodes")


def test_a_swallowed_product_is_opaque() -> None:
    """A product that no kernel answers for is never counted as int8."""
    kernels = [Kernel("conv", "Convolution", "i8"), Kernel("fused", "Subgraph", "i8")]
    found = count_kernels(kernels, [], [CONV, DENSE], "int8")
    assert found.opaque_nodes == 1


def test_a_float_kernel_swallows_in_float() -> None:
    """Of 1000 MACs in int8 and 100 inside a fused float kernel, as attention is, 1000 of 1100 are int8."""
    kernels = [Kernel("conv", "GroupConvolution", "i8"), Kernel("fused", "Subgraph", "f32")]
    products = [Product("conv", ("c",), 1000), DENSE]
    found = count_kernels(kernels, [], products, "int8")
    assert found.pct == pytest.approx(100 * 1000 / 1100)
    assert (found.opaque_nodes, found.float_nodes) == (0, ("dense",))


def test_a_float_kernel_may_hold_integers() -> None:
    """A product that reads what comes from levels, inside a kernel that is float outside, is neither int8 nor float."""
    kernels = [Kernel("conv", "GroupConvolution", "i8"), Kernel("fused", "Subgraph", "f32")]
    products = [CONV, Product("dense", ("y",), 100, reads_levels=True)]
    found = count_kernels(kernels, [], products, "int8")
    assert (found.pct, found.high_pct, found.opaque_nodes, found.float_nodes) == (90.0, 100.0, 1, ())


def test_names_that_do_not_fit_are_opaque() -> None:
    """With a kernel of an unknown name it is not clear which product was swallowed, so its share is not invented."""
    kernels = [Kernel("strange", "Convolution", "i8"), Kernel("fused", "Subgraph", "f32")]
    assert count_kernels(kernels, [], [CONV, DENSE], "int8").opaque_nodes == 1


def test_no_counters_is_no_coverage() -> None:
    """With the fused node alone nothing is known: no share at all, and every product opaque."""
    fused = RanNode("fused", f"{OPENVINO}_1_0", OPENVINO, (), ())
    found = count_kernels([], [fused], [CONV, DENSE], "int8")
    assert found.pct is None
    assert found.opaque_nodes == 2


def test_nodes_outside_count_too() -> None:
    """What ran on the CPU provider is judged like any node of ``ort``."""
    outside = RanNode("dense", "Gemm", "CPUExecutionProvider", (Operand("float", (1, 10)),), ())
    found = count_kernels([Kernel("conv", "Convolution", "i8")], [outside], [CONV, DENSE], "int8")
    assert (found.pct, found.unit) == (50.0, "nodes")
    assert found.float_nodes == ("dense",)
