"""Builds in a process of their own: how one ended, and what its log means for the user."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pytest_quant.backends.apart import TIME_LIMIT_S, ApartError, call_apart
from pytest_quant.backends.runtime import failed
from pytest_quant.backends.trt.configure import (
    COUNT_FILE,
    LOG_FILE,
    MISSING_SCALES,
    NO_IMPLICIT,
    SHAPE_INPUT,
    BuildRequest,
)
from pytest_quant.backends.trt.options import Range

_OLD_GPU = "use a GPU that this release takes, an older TensorRT, or backend='ort-cuda'"

_STEPS = {
    NO_IMPLICIT: "drop quantization='implicit', or pip install 'tensorrt<11'",
    "libnvinfer_lean": "install the lean runtime, tensorrt-lean of the same version, or drop version_compatible",
    "is not supported by this TensorRT release": _OLD_GPU,
    "<= smVersion": _OLD_GPU,
    "within workspace limit": "write a larger workspace_mb, or none: then it is the memory of the GPU",
}
"""Words of a refusal that have one answer."""

_VALUES = re.compile(re.escape(SHAPE_INPUT) + r" '(?P<name>.*)'")

_NO_OPERATOR = re.compile(r"Plugin not found|No importer registered|UNSUPPORTED_NODE", re.IGNORECASE)

_SHAPES = re.compile(
    r"optimization profile|profile \d|shape constraint|shapeMachine|dimension|reshap|shape error", re.IGNORECASE
)

_QUANTIZED = re.compile(r"quantiz|zero.?point|\bscale\b|int8|fp8|int4", re.IGNORECASE)

_LINES_SHOWN = 6


def build_notes(folder: Path) -> tuple[str, ...]:
    """Return a note on the warnings of the build in `folder` that mean that something did not become INT8."""
    count = int((folder / COUNT_FILE).read_text(encoding="ascii"))
    if not count:
        return ()
    tensors, their = ("1 tensor has", "its layer") if count == 1 else (f"{count} tensors have", "their layers")
    return (f"{tensors} no scale ('{MISSING_SCALES}' in {LOG_FILE}), so {their} may stay in float",)


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
    for words, step in _STEPS.items():
        if words in said:
            return step
    if _SHAPES.search(said) and not _NO_OPERATOR.search(said):
        return _about_shapes(shapes)
    if _QUANTIZED.search(said) and not _NO_OPERATOR.search(said):
        return "leave the node in float with exclude=[...], or quantize it in another scheme"
    return "export the model with operators that TensorRT has, or use another backend"


def _about_shapes(shapes: Mapping[str, Range]) -> str:
    if not shapes:
        return "no input has a free axis, so the model itself has shapes that do not fit: export it again"
    ranges = "; ".join(f"'{name}' from {low} to {high}, usually {usual}" for name, (low, usual, high) in shapes.items())
    return (
        f"it was to be built for {ranges}: give data of sizes that the network takes, or write them, "
        "options={'shapes': {" + ", ".join(f"'{name}': [smallest, usual, largest]" for name in shapes) + "}}"
    )


def run_builder(request: BuildRequest, name: str, limit_s: float = TIME_LIMIT_S) -> None:
    """Build the engine that `request` asks for, in a process of its own.

    Parameters
    ----------
    request : the build.
    name : of the engine, in errors.
    limit_s : longest time in seconds, after which the building process is ended.

    Raises
    ------
    BuildError : TensorRT refused the model, with its messages; or its process crashed or took too long.
    """
    from pytest_quant.backends.trt.builder import build

    try:
        call_apart(build, request, limit_s=limit_s)
    except ApartError as ended:
        file = Path(request.folder) / LOG_FILE
        log = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
        refusal = "" if ended.error is None else str(ended.error)
        lines = refusal.splitlines()[:_LINES_SHOWN] or log.splitlines()[-_LINES_SHOWN:]
        shown = "\n".join(lines) or "it said nothing"
        raise failed(
            f"{request.module} refused to build {name}"
            if ended.error
            else f"{request.module} did not build {name}: it {ended.how}",
            f"{ended.said}\n{log}",
            value=shown,
            fix="a lower optimization_level, or a timing_cache, makes builds shorter"
            if ended.timed_out
            else next_step(shown, request.shapes),
        ) from ended
