"""Run the builder in a process of its own, and turn how it ended into an engine or an error."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pytest_quant.backends.failure import failed_with_text
from pytest_quant.backends.trt.options import Range
from pytest_quant.backends.trt.request import LOG_FILE, BuildRequest, write_request

SHAPE_INPUT = "the values of an input decide shapes, and nothing tells which values to expect: input"
"""How the building process begins to say so; the name follows in quotes."""

_VALUES = re.compile(re.escape(SHAPE_INPUT) + r" '(?P<name>.*)'")
_NO_OPERATOR = re.compile(r"Plugin not found|No importer registered|UNSUPPORTED_NODE", re.IGNORECASE)
_SHAPES = re.compile(
    r"optimization profile|profile \d|shape constraint|shapeMachine|dimension|reshap|shape error", re.IGNORECASE
)
_QUANTIZED = re.compile(r"quantiz|zero.?point|\bscale\b|int8|fp8|int4", re.IGNORECASE)


def next_step(said: str, shapes: Mapping[str, Range]) -> str:
    """Return what the user can do about a refusal.

    Parameters
    ----------
    said : the messages of TensorRT.
    shapes : smallest, usual and largest shape of each input with free axes, as asked for.
    """
    values = _VALUES.search(said)
    if values is not None:
        return (
            f"write smallest, usual and largest values: options={{'shapes': {{'{values['name']}': "
            "[smallest, usual, largest]}}, each a list of ints"
        )
    if _SHAPES.search(said) and not _NO_OPERATOR.search(said):
        return _about_shapes(shapes)
    if _QUANTIZED.search(said) and not _NO_OPERATOR.search(said):
        return "leave the node in float with exclude=[...], or quantize it in another scheme"
    return "export the model with operators that TensorRT has, or use another backend"


def _about_shapes(shapes: Mapping[str, Range]) -> str:
    if not shapes:
        return "no input has a free axis, so the model itself has shapes that do not fit: export it again"
    asked = "; ".join(f"'{name}' from {low} to {high}, usually {usual}" for name, (low, usual, high) in shapes.items())
    return (
        f"it was to be built for {asked}: give data of sizes that the network takes, or write them, "
        "options={'shapes': {" + ", ".join(f"'{name}': [smallest, usual, largest]" for name in shapes) + "}}"
    )


MODULE = "pytest_quant.backends.trt.builder"
TIME_LIMIT_S = 3600.0
_LINES_SHOWN = 6


def run_builder(request: BuildRequest, name: str) -> None:
    """Build the engine that `request` asks for; `name` is its name in errors.

    Raises
    ------
    BuildError : TensorRT refused the model, or its process crashed; with its messages.
    """
    with tempfile.TemporaryDirectory(prefix="pytest-quant-") as folder:
        file = Path(folder) / "request.json"
        write_request(request, file)
        ended = subprocess.run(  # noqa: S603 - our own module and a file of ours
            (sys.executable, "-m", MODULE, str(file)),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIME_LIMIT_S,
            check=False,
        )
    if ended.returncode == 0:
        return
    told = "\n".join(_told(ended.stderr, request))
    raise failed_with_text(
        f"{request.module} refused to build {name}"
        if ended.returncode > 0
        else _crash(request, name, ended.returncode),
        f"{ended.stderr}\n{_log(request)}",
        value=told,
        fix=next_step(told, request.shapes),
    )


def _crash(request: BuildRequest, name: str, returncode: int) -> str:
    return f"{request.module} crashed building {name} ({signal.Signals(-returncode).name})"


def _told(stderr: str, request: BuildRequest) -> list[str]:
    lines = [line for line in stderr.splitlines() if line.strip()]
    if not lines:
        lines = _log(request).splitlines()[-_LINES_SHOWN:]
    return lines[:_LINES_SHOWN] or ["it said nothing"]


def _log(request: BuildRequest) -> str:
    file = Path(request.folder) / LOG_FILE
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
