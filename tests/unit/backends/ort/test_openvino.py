"""Whether the plugin can be used here, and why not; which kernels count, in which precision, and what stays unseen."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest

from pytest_quant.backends.ort import openvino as plugin
from pytest_quant.backends.ort.macs import Product, RanNode
from pytest_quant.backends.ort.openvino import (
    OPENVINO,
    count_kernels,
    cpu_devices,
    find_plugin,
    kernel_kind,
    read_kernels,
)
from pytest_quant.backends.readback import Kind

CPU, GPU = onnxruntime.OrtHardwareDeviceType.CPU, onnxruntime.OrtHardwareDeviceType.GPU


@dataclass(frozen=True)
class Device:
    """As ONNX Runtime tells of one."""

    ep_name: str
    type: Any = CPU
    vendor_id: int = 0x1022
    vendor: str = "AMD"

    @property
    def device(self) -> Device:
        """The piece of hardware under it."""
        return self


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> list[Device]:
    """The devices that ONNX Runtime knows once the plugin is registered; the test fills the list."""
    found: list[Device] = []
    package = SimpleNamespace(get_library_path=lambda: "plugin.so")
    monkeypatch.setattr(plugin, "find_spec", lambda _: object())
    monkeypatch.setattr(plugin, "import_module", lambda _: package)
    monkeypatch.setattr(plugin, "version", lambda _: "1.8.1")
    monkeypatch.setattr(onnxruntime, "register_execution_provider_library", lambda *_: None)
    monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: found)
    return found


def test_the_one_by_that_name(devices: list[Device]) -> None:
    """Siblings with longer names, and GPUs, are not it; of two alike one is enough."""
    wanted = Device(OPENVINO)
    devices += [Device(f"{OPENVINO}.AUTO"), replace(wanted, type=GPU), wanted, wanted, Device("CPUExecutionProvider")]
    assert cpu_devices() == [wanted]
    assert find_plugin().available


def test_a_cpu_of_another_maker(devices: list[Device]) -> None:
    """It is a skip that says who made the CPU, and which backend runs there."""
    devices.append(Device("CPUExecutionProvider"))
    found = find_plugin()
    assert (found.available, found.broken) == (False, False)
    assert "(AMD): it takes CPUs made by Intel only" in found.reason
    assert 'backend="openvino"' in found.fix


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
    found = find_plugin()
    assert found.broken
    assert "OSError: libopenvino.so: cannot open" in found.reason
    assert "--force-reinstall onnxruntime-ep-openvino" in found.fix


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fix is the extra that brings it."""
    monkeypatch.setattr(plugin, "find_spec", lambda _: None)
    found = find_plugin()
    assert (found.available, found.broken) == (False, False)
    assert found.fix == 'pip install "pytest-quant[ort-openvino]"'


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


def test_weighted_by_macs() -> None:
    """A convolution of 900 in int8 and a dense layer of 100 in float are 90 %, and the dense layer is named."""
    kernels = [("conv/WithoutBiases", "Convolution", "i8"), ("y", "FullyConnected", "f32")]
    found = count_kernels(kernels, [], [CONV, DENSE], "int8")
    assert (found.pct, found.unit) == (90.0, "MACs")
    assert found.float_nodes == ("dense",)
    assert (found.provider, found.opaque_nodes) == (OPENVINO, 0)


def test_names_do_not_run_together() -> None:
    """``conv`` does not answer for ``conv2``; without its MACs all are counted by nodes."""
    kernels = [("conv2", "Convolution", "i8"), ("y", "FullyConnected", "f32")]
    found = count_kernels(kernels, [], [CONV, DENSE], "int8")
    assert (found.pct, found.unit) == (50.0, "nodes")


def test_a_swallowed_product_is_opaque() -> None:
    """A product that no kernel answers for is never counted as int8."""
    kernels = [("conv", "Convolution", "i8"), ("fused", "Subgraph", "i8")]
    found = count_kernels(kernels, [], [CONV, DENSE], "int8")
    assert found.opaque_nodes == 1


def test_a_float_kernel_swallows_in_float() -> None:
    """Of 1000 MACs in int8 and 100 inside a fused float kernel, as attention is, 1000 of 1100 are int8."""
    kernels = [("conv", "GroupConvolution", "i8"), ("fused", "Subgraph", "f32")]
    products = [Product("conv", ("c",), 1000), DENSE]
    found = count_kernels(kernels, [], products, "int8")
    assert found.pct == pytest.approx(100 * 1000 / 1100)
    assert (found.opaque_nodes, found.float_nodes) == (0, ("dense",))


def test_a_float_kernel_may_hold_integers() -> None:
    """A product that reads what comes from levels, inside a kernel that is float outside, is neither int8 nor float."""
    kernels = [("conv", "GroupConvolution", "i8"), ("fused", "Subgraph", "f32")]
    products = [CONV, Product("dense", ("y",), 100, reads_levels=True)]
    found = count_kernels(kernels, [], products, "int8")
    assert (found.pct, found.high_pct, found.opaque_nodes, found.float_nodes) == (90.0, 100.0, 1, ())


def test_names_that_do_not_fit_are_opaque() -> None:
    """With a kernel of an unknown name it is not clear which product was swallowed, so its share is not invented."""
    kernels = [("strange", "Convolution", "i8"), ("fused", "Subgraph", "f32")]
    assert count_kernels(kernels, [], [CONV, DENSE], "int8").opaque_nodes == 1


def test_no_counters_is_no_coverage() -> None:
    """With the fused node alone nothing is known: no share at all, and every product opaque."""
    fused = RanNode("fused", f"{OPENVINO}_1_0", OPENVINO, (), ())
    found = count_kernels([], [fused], [CONV, DENSE], "int8")
    assert found.pct is None
    assert found.opaque_nodes == 2


def test_nodes_outside_count_too() -> None:
    """What ran on the CPU provider is judged like any node of ``ort``."""
    outside = RanNode("dense", "Gemm", "CPUExecutionProvider", (("float", (1, 10)),), ())
    found = count_kernels([("conv", "Convolution", "i8")], [outside], [CONV, DENSE], "int8")
    assert (found.pct, found.unit) == (50.0, "nodes")
    assert found.float_nodes == ("dense",)
