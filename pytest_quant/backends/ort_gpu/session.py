"""Sessions on a GPU provider, and the proof that their compute is there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_quant.backends.ort.op_table import FLOAT_OPS, INT8_OPS, NARROW_OPS
from pytest_quant.backends.ort.refusal import refused
from pytest_quant.errors import BuildError

_COMPUTE = FLOAT_OPS | INT8_OPS | NARROW_OPS
_FATAL = 4
_CPU = "CPUExecutionProvider"
_INNER = (
    "TensorRT takes only a part of this graph, and tensors between the parts have free axes: use backend='trt', which "
    "takes it whole or says what it cannot, or export the model with fixed axes"
)
Providers = Sequence[tuple[str, dict[str, str]]]


def open_session(path: Path, providers: Providers, profile: Path | None = None) -> tuple[Any, tuple[str, ...]]:
    """Open the model in `path` and return the session with what runs on the CPU beside it, in words.

    Raises
    ------
    BuildError : ONNX Runtime refuses the model, falls back, or puts a product on another provider.
    """
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = _FATAL
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if profile is not None:
        settings.enable_profiling = True
        settings.profile_file_prefix = str(profile / "run")
    try:
        session = onnxruntime.InferenceSession(str(path), settings, providers=list(providers), enable_fallback=0)
    except Exception as error:
        fix = _INNER if "no associated shape profiles" in str(error) else None
        raise refused(f"the model {path.name}", error, fix) from error
    asked = [name for name, _ in providers]
    if session.get_providers()[0] != asked[0]:
        raise BuildError(
            f"{path.name} does not run where it was asked to",
            value=f"asked for {asked[0]}, got {', '.join(session.get_providers())}",
            fix="pytest-quant doctor tells which library does not load",
        )
    return session, prove_placement(session.get_provider_graph_assignment_info(), asked, path.name)


def prove_placement(parts: Sequence[Any], asked: Sequence[str], name: str) -> tuple[str, ...]:
    """Refuse a product outside the providers `asked`; say how many harmless nodes run elsewhere.

    Raises
    ------
    BuildError : names the nodes.
    """
    strays = [(part.ep_name, node) for part in parts if part.ep_name not in asked for node in part.get_nodes()]
    products = [f"{node.name} ({node.op_type}) on {where}" for where, node in strays if node.op_type in _COMPUTE]
    if products:
        raise BuildError(
            f"a part of {name} does not run where it was asked to",
            value="; ".join(products[:6]) + (f" and {len(products) - 6} more" if len(products) > 6 else ""),
            allowed=", ".join(asked),
            fix="leave these nodes out of the quantization with exclude=[...], or use a provider that has them",
        )
    if not strays:
        return ()
    kinds = sorted({node.op_type for _, node in strays})
    return (f"{len(strays)} nodes without products run on {_CPU}: {', '.join(kinds[:6])}",)
