"""A session of ONNX Runtime with every setting that matters set, and the reasons for which it is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pytest_quant.backends.base import Feeds, misfit
from pytest_quant.backends.failure import failed
from pytest_quant.backends.ort.options import CPU
from pytest_quant.errors import BuildError, QuantError
from pytest_quant.spec import Signature

_NODE = (
    re.compile(r'In Node, \("(?P<node>[^"]*)", (?P<op>\w+)'),
    re.compile(r"(?P<op>\w+)\(\d+\) node with name '(?P<node>[^']*)'"),
    re.compile(r"[Nn]ode ?\((?P<node>[^)]*)\) Op \((?P<op>\w+)\)"),
    re.compile(r"of node \((?P<node>[^)]+)\)"),
    re.compile(r"(?P<op>\w+) node\. Name:'(?P<node>[^']*)'"),
    re.compile(r"error: (?P<op>[\w.:]+)\(-?\d+\) is not a registered"),
)
_PREFIX = re.compile(r"\[ONNXRuntimeError\] : \d+ : (?P<kind>\w+) : ")

_NEXT = {
    "NOT_IMPLEMENTED": "leave that node in float with exclude=[...], or export the model with operators the CPU has",
    "INVALID_GRAPH": "export it again with opset 17 or later; onnx.checker.check_model(path, True) may say more",
    "INVALID_PROTOBUF": "write or download the model file again",
    "FAIL": "if it is an operator of your own, this backend cannot run it; else export the model again",
}
_ELSE = "run the float model alone first: python -c \"import onnxruntime as o; o.InferenceSession('model.onnx')\""


def refused(doing: str, error: Exception, fix: str | None = None) -> QuantError:
    """Return the error for `error`, raised by ONNX Runtime while `doing` something."""
    text = str(error)
    found = _PREFIX.search(text)
    kind = found["kind"] if found else type(error).__name__
    cause = text[found.end() if found else 0 :].strip() or type(error).__name__
    node = _node(text)
    return failed(
        f"ONNX Runtime refused {doing}" + (f" at {node}" if node else ""),
        error,
        value=f"{kind}: {cause}",
        fix=fix or _NEXT.get(kind, _ELSE),
    )


def run_refused(error: Exception, feeds: Feeds, signature: Signature, doing: str) -> QuantError:
    """Return the error that explains why a calibrator's run over `feeds` failed with `error`.

    Its session checks the inputs itself, so they are looked at here only after it said no: a good run pays nothing.
    """
    if isinstance(error, QuantError):
        return error
    return misfit(feeds, signature) or refused(doing, error)


def _node(text: str) -> str:
    for pattern in _NODE:
        found = pattern.search(text)
        if found:
            parts = found.groupdict()
            name, op = parts.get("node"), parts.get("op")
            return " ".join(part for part in (f"node '{name}'" if name else "", f"({op})" if op else "") if part)
    return ""


_FATAL = 4
"""Errors are raised; printing them too would put native text between the lines of a test run."""


def open_session(path: Path, threads: int, profile: Path | None = None, *, simulates: bool = False) -> Any:
    """Open the model in `path` on the CPU and prove that every node is there.

    Parameters
    ----------
    simulates : keep Q/DQ pairs as they are and run every product in float.
    profile : a folder; the session then writes what it runs into a file there, with the shapes of all operands.

    Raises
    ------
    BuildError : ONNX Runtime refuses the model, or puts a node elsewhere.
    """
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = _FATAL
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if simulates:
        settings.add_session_config_entry("session.disable_quant_qdq", "1")
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    if profile is not None:
        settings.enable_profiling = True
        settings.profile_file_prefix = str(profile / "run")
        # Packed weights leave the graph, and their shapes with them; the choice of kernels does not depend on it.
        settings.add_session_config_entry("session.disable_prepacking", "1")
    # Float convolutions and poolings in blocks of the vector width pad their channels, and the padding would be counted
    # as compute. Integer nodes are none of that layout's: what runs in which precision does not depend on it.
    layouts = [] if profile is None else ["NchwcTransformer"]
    try:
        session = onnxruntime.InferenceSession(str(path), settings, providers=[CPU], disabled_optimizers=layouts)
    except Exception as error:
        raise refused(f"the model {path.name}", error) from error
    _prove_provider(session, path)
    return session


def _prove_provider(session: Any, path: Path) -> None:
    parts = session.get_provider_graph_assignment_info()
    elsewhere = {part.ep_name: [node.name for node in part.get_nodes()] for part in parts if part.ep_name != CPU}
    first = session.get_providers()[0]
    if elsewhere or first != CPU:
        raise BuildError(
            f"{path.name} does not run where it was asked to",
            value="; ".join(f"{name}: {len(nodes)} nodes" for name, nodes in elsewhere.items()) or first,
            allowed=CPU,
            fix="reinstall onnxruntime: pip install --force-reinstall onnxruntime",
        )
