"""A session on OpenVINO with every setting that matters set, and the proof that it computes there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_quant.backends.ort.refusal import refused
from pytest_quant.backends.ort_gpu.session import prove_placement
from pytest_quant.backends.ort_openvino.plugin import PROVIDER, cpu_devices
from pytest_quant.errors import BuildError

_FATAL = 4
_SETTINGS = {
    "PERFORMANCE_HINT": "LATENCY",
    "INFERENCE_PRECISION_HINT": "f32",
    "NUM_STREAMS": "1",
    "ENABLE_CPU_PINNING": "NO",
}
"""In words of OpenVINO: without the hint a CPU with bfloat16 may run the float reference in it."""


def open_session(path: Path, threads: int, profile: Path | None = None) -> tuple[Any, tuple[str, ...]]:
    """Open the model in `path` on OpenVINO and return the session with what runs on the CPU provider, in words.

    Parameters
    ----------
    profile : a folder; the session then writes into a file there what it and OpenVINO inside it run.

    Raises
    ------
    BuildError : ONNX Runtime or OpenVINO refuses the model, or a product is not on OpenVINO.
    """
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = _FATAL
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    inside = _SETTINGS | {"INFERENCE_NUM_THREADS": str(threads)}
    if profile is not None:
        settings.enable_profiling = True
        settings.profile_file_prefix = str(profile / "run")
    try:
        settings.add_provider_for_devices(cpu_devices(), {"load_config": json.dumps({"CPU": inside})})
        session = onnxruntime.InferenceSession(str(path), settings)
        parts = session.get_provider_graph_assignment_info()
    except Exception as error:
        raise refused(f"the model {path.name}", error) from error
    return session, prove_openvino(parts, path.name)


def prove_openvino(parts: list[Any], name: str) -> tuple[str, ...]:
    """Refuse a product outside OpenVINO, and a graph of which nothing is in it; return notes on harmless nodes.

    Raises
    ------
    BuildError : names the nodes.
    """
    notes = prove_placement(parts, [PROVIDER], name)
    if parts and not any(part.ep_name == PROVIDER for part in parts):
        nodes = [f"{node.name} ({node.op_type})" for part in parts for node in part.get_nodes()]
        raise BuildError(
            f"nothing of {name} runs on {PROVIDER}",
            value="; ".join(nodes[:6]) + (f" and {len(nodes) - 6} more" if len(nodes) > 6 else ""),
            fix="use backend='ort' for it",
        )
    return notes
