"""The OpenVINO plugin on CPUs of every maker.

The plugin skips a CPU whose maker's number is not Intel's; OpenVINO itself runs on the others too
(github.com/microsoft/onnxruntime/pull/31981 takes the check away). Tests of a second provider must run everywhere, so
here ONNX Runtime's record of the CPU says Intel for as long as the plugin is being registered. The plugin, its kernels
and ONNX Runtime's placement are the real ones.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import onnxruntime

from pytest_quant.backends.ort.openvino import OPENVINO, cpu_devices

INTEL = 0x8086


def offer_any_cpu() -> None:
    """Have the plugin offer this CPU for the rest of the process.

    It stays registered: a session that a failed test still holds would outlive its library.
    """
    if cpu_devices():
        return
    onnxruntime.unregister_execution_provider_library(OPENVINO)
    with made_by(INTEL):
        assert cpu_devices(), "the plugin offers no device on a CPU made by Intel"


@contextmanager
def made_by(maker: int) -> Iterator[None]:
    """Write the maker's number into ONNX Runtime's record of the CPU, and the true one back at the end."""
    cpu = next(
        device.device
        for device in onnxruntime.get_ep_devices()
        if device.device.type == onnxruntime.OrtHardwareDeviceType.CPU
    )
    record = _record(cpu)
    true_maker = cpu.vendor_id
    assert record[1] == true_maker, "the record of the CPU has another layout"
    record[1] = maker
    try:
        assert cpu.vendor_id == maker
        yield
    finally:
        record[1] = true_maker


def _record(device: Any) -> Any:
    """The record begins with three numbers, type, maker and model; the Python object holds its address first."""
    address = ctypes.c_void_p.from_address(id(device) + object.__basicsize__).value
    assert address is not None
    return (ctypes.c_uint32 * 3).from_address(address)
