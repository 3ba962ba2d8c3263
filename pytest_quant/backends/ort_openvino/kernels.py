"""What OpenVINO ran inside a fused node, out of ONNX Runtime's profile.

ONNX Runtime sees one node. Where a session is profiled, the plugin adds one event for each kernel, with the type of the
layer and the implementation, whose last part is the precision: ``brgconv_avx2_f32``, ``jit_gemm_I8``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pytest_quant.backends.ort_openvino.plugin import PROVIDER

_PREFIX = "OV::"
_RAN = "EXECUTED"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel that ran; `precision` in small letters, ``f32``, ``i8`` or ``bf16`` for example."""

    name: str
    layer: str
    precision: str


def read_kernels(file: Path) -> list[Kernel]:
    """Return the kernels in the order they ran; those that OpenVINO optimized away are not among them."""
    events = json.loads(file.read_text(encoding="utf-8"))
    return [
        Kernel(
            name=event["name"].removeprefix(_PREFIX),
            layer=event["args"]["ov_node_type"],
            precision=event["args"]["ov_exec_type"].rpartition("_")[2].lower(),
        )
        for event in events
        if event.get("cat") == "Kernel"
        and event["args"].get("ep") == PROVIDER
        and event["args"].get("ov_status") == _RAN
    ]
