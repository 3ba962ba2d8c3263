"""Whether the plugin can be used here, and why not; which kernels count, in which precision, and what stays unseen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest

from pytest_quant.backends.ort import openvino as plugin
from pytest_quant.backends.ort.macs import Product, RanNode
from pytest_quant.backends.ort.openvino import (
    OPENVINO,
    OrtOpenVinoBackend,
    count_kernels,
    cpu_devices,
    kernel_kind,
    kernels_in,
)
from pytest_quant.backends.readback import Kind

CPU, GPU = onnxruntime.OrtHardwareDeviceType.CPU, onnxruntime.OrtHardwareDeviceType.GPU


@dataclass(frozen=True)
class Device:
    """As ONNX Runtime tells of one."""

    ep_name: str
    type: Any = CPU

    @property
    def device(self) -> Device:
        """The piece of hardware under it."""
        return self


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> list[Device]:
    """The devices that ONNX Runtime knows once the plugin is registered; the test fills the list."""
    result: list[Device] = []
    package = SimpleNamespace(get_library_path=lambda: "plugin.so")
    monkeypatch.setattr(plugin, "find_spec", lambda _: object())
    monkeypatch.setattr(plugin, "import_module", lambda _: package)
    monkeypatch.setattr(plugin, "version", lambda _: "1.8.1")
    monkeypatch.setattr(onnxruntime, "register_execution_provider_library", lambda *_: None)
    monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: result)
    return result


def test_the_one_by_that_name(devices: list[Device]) -> None:
    """Siblings with longer names, and GPUs, are not it; of two alike one is enough."""
    wanted = Device(OPENVINO)
    devices += [Device(f"{OPENVINO}.AUTO"), replace(wanted, type=GPU), wanted, wanted, Device("CPUExecutionProvider")]
    assert cpu_devices() == [wanted]
    assert OrtOpenVinoBackend().availability().available


def test_a_cpu_of_another_maker(devices: list[Device]) -> None:
    """It is a skip that says whose CPUs it takes, and which backend runs there."""
    devices.append(Device("CPUExecutionProvider"))
    result = OrtOpenVinoBackend().availability()
    assert (result.available, result.broken) == (False, False)
    assert "it takes those made by Intel only" in result.reason
    assert 'backend="openvino"' in result.fix


def test_registered_already(devices: list[Device], monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else in the process has registered it: that is what was wanted."""

    def registered(*_: object) -> None:
        raise Exception(f"EP library is already registered under {OPENVINO}")  # noqa: TRY002

    monkeypatch.setattr(onnxruntime, "register_execution_provider_library", registered)
    devices.append(Device(OPENVINO))
    assert len(cpu_devices()) == 1


def test_a_plugin_that_does_not_load(devices: list[Device], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is broken, and the loader's words are quoted."""

    def refuse(*_: object) -> None:
        raise OSError("libopenvino.so: cannot open shared object file")

    monkeypatch.setattr(onnxruntime, "register_execution_provider_library", refuse)
    result = OrtOpenVinoBackend().availability()
    assert result.broken
    assert "OSError: libopenvino.so: cannot open" in result.reason
    assert "--force-reinstall onnxruntime-ep-openvino" in result.fix


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fix is the extra that brings it."""
    monkeypatch.setattr(plugin, "find_spec", lambda _: None)
    result = OrtOpenVinoBackend().availability()
    assert (result.available, result.broken) == (False, False)
    assert result.fix == 'on a CPU made by Intel pip install "pytest-quant[ort-openvino]", on others backend="openvino"'


CONV = Product("conv", ("c",), 900)
DENSE = Product("dense", ("y",), 100)


def event(name: str, layer: str, implementation: str, **changes: str) -> dict[str, object]:
    """One event as the plugin writes it."""
    arguments = {"ep": OPENVINO, "ov_node_type": layer, "ov_exec_type": implementation, "ov_status": "EXECUTED"}
    return {"cat": "Kernel", "name": f"OV::{name}", "args": arguments | changes}


def test_kernels_are_read() -> None:
    """The precision is the last part of the implementation; what did not run or is not the plugin's is left out."""
    events: list[dict[str, object]] = [
        {"cat": "Session", "name": "model_run", "args": {}},
        {"cat": "Node", "name": "fused_kernel_time", "args": {"op_name": "x", "provider": OPENVINO}},
        event("conv/WithoutBiases", "Convolution", "brgconv_avx512_I8"),
        event("y", "FullyConnected", "gemm_mlas_f32"),
        event("relu", "Eltwise", "undef", ov_status="OPTIMIZED_OUT"),
        event("other", "Convolution", "x_f32", ep="SomeOtherProvider"),
    ]
    assert kernels_in(events) == [
        ("conv/WithoutBiases", "Convolution", "i8"),
        ("y", "FullyConnected", "f32"),
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
    assert kernel_kind(("k", layer, ran_in), precision) is kind


LEVELS = Product("dense", ("y",), 100, reads_levels=True)
INT8, FLOAT_DENSE = ("conv", "Convolution", "i8"), ("y", "FullyConnected", "f32")


@pytest.mark.parametrize(
    ("kernels", "products", "pct", "unit", "opaque", "floats"),
    [
        pytest.param([("conv/X", *INT8[1:]), FLOAT_DENSE], [CONV, DENSE], 90.0, "MACs", 0, ("dense",), id="by MACs"),
        pytest.param([("conv2", *INT8[1:]), FLOAT_DENSE], [CONV, DENSE], 50.0, "nodes", 0, ("dense",), id="conv2"),
        pytest.param([INT8, ("f", "Subgraph", "i8")], [CONV, DENSE], 90.0, "MACs", 1, (), id="inside int8"),
        pytest.param([INT8, ("f", "Subgraph", "f32")], [CONV, DENSE], 90.0, "MACs", 0, ("dense",), id="inside float"),
        pytest.param([INT8, ("f", "Subgraph", "f32")], [CONV, LEVELS], 90.0, "MACs", 1, (), id="float around integers"),
        pytest.param([("strange", "Convolution", "f32"), ("f", "Subgraph", "f32")], [CONV, DENSE], 0.0, "nodes", 1,
                     ("strange",), id="no known name"),
    ],
)  # fmt: skip
def test_what_kernels_cover(
    kernels: list[tuple[str, str, str]],
    products: list[Product],
    pct: float,
    unit: str,
    opaque: int,
    floats: tuple[str, ...],
) -> None:
    """Of 900 MACs and 100, the 100 in a float kernel or in a fused one; what a fused kernel swallowed is never int8."""
    result = count_kernels(kernels, [], products, "int8")
    assert (result.pct, result.unit, result.opaque_nodes, result.float_nodes) == (pct, unit, opaque, floats)
    assert result.high_pct == (None if not opaque else pytest.approx(pct + 100.0 / (2 if unit == "nodes" else 10)))


def test_no_counters_is_no_coverage() -> None:
    """With the fused node alone nothing is known: no share at all, and every product opaque."""
    fused = RanNode("fused", f"{OPENVINO}_1_0", OPENVINO, (), ())
    result = count_kernels([], [fused], [CONV, DENSE], "int8")
    assert result.pct is None
    assert result.opaque_nodes == 2


def test_nodes_outside_count_too() -> None:
    """What ran on the CPU provider is judged like any node of ``ort``."""
    outside = RanNode("dense", "Gemm", "CPUExecutionProvider", (("float", (1, 10)),), ())
    result = count_kernels([("conv", "Convolution", "i8")], [outside], [CONV, DENSE], "int8")
    assert (result.pct, result.unit) == (50.0, "nodes")
    assert result.float_nodes == ("dense",)
