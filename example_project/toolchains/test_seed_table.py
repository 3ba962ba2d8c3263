"""One model, one machine, one data set, every toolchain: the table to choose one from.

pytest test_seed_table.py --quant-columns=backend,precision,scheme,metric,drop,agreement,p50,speedup,coverage,size,build
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

TARGET = {"compute_capability": "SM89"}
"""TensorRT-RTX builds for this GPU here, without having one; accuracy is then simulated."""


def toolchain(name: str, *, caught: str = "", **keys: str | Mapping[str, str]) -> object:
    """One row of the table; `caught` says why it must fail, and with what."""
    marks: list[pytest.MarkDecorator] = [pytest.mark.quant(**keys)]
    if caught:
        marks.append(pytest.mark.xfail(strict=True, raises=pytest.fail.Exception, reason=caught))
    return pytest.param(name, id=name, marks=marks)


NO_OP = "PT2E matches layers by class, this network's convolutions are a subclass: 1 of 50 is quantized"


@pytest.mark.quant(model="efficientnet", data="images", reference="ort", max_drop=8.0)
@pytest.mark.parametrize(
    "name",
    [
        toolchain("ort fp32", backend="ort", precision="fp32"),
        toolchain("ort int8", backend="ort"),
        toolchain("openvino fp32", backend="openvino", precision="fp32"),
        toolchain("openvino int8", backend="openvino"),
        toolchain("torch fp32", backend="torch", precision="fp32"),
        toolchain("torch int8", backend="torch", caught=NO_OP),
        toolchain("trt-rtx fp32", backend="trt-rtx", precision="fp32", options=TARGET),
        toolchain("trt-rtx int8", backend="trt-rtx", options=TARGET),
    ],
)
def test_toolchain(name: str) -> None:
    """At most eight points below the float network in ONNX Runtime."""
