"""What ONNX Runtime says when it refuses, as an error that names the node, the cause and the next step."""

from __future__ import annotations

import re

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.failure import failed
from pytest_quant.backends.misfit import misfit
from pytest_quant.errors import QuantError
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
    """Return the error that explains why a run over `feeds` failed with `error`.

    A session checks its inputs itself, so they are looked at here only after it said no: a good run pays nothing.
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
