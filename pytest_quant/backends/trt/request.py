"""The request of a build, as JSON between the process that asks and the one that builds; and notes from its log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pytest_quant.backends.trt.options import Range

PLAN_FILE = "model.engine"
LAYERS_FILE = "layers.json"
LOG_FILE = "build.log"


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """One build.

    Attributes
    ----------
    module : the one to import, ``tensorrt`` or ``tensorrt_rtx``.
    target : the compute capability, ``None`` for the GPU here.
    shapes : smallest, usual and largest of every input with free axes.
    values : the same of every input that is a shape itself.
    strongly_typed : the graph's own types hold; else TensorRT 10 chooses among `precisions`.
    precisions : builder flags besides float32, such as ``FP16``; only without strong types.
    tf32 : float32 products may round their inputs to ten bits.
    timing_cache : a file to read and write measured kernels, empty for none.
    calibration : method of TensorRT's own calibrator, empty for none.
    samples : folder with the calibrator's batches; empty when `ranges` are reused.
    ranges : file with what the calibrator found, read when there are no `samples`, else written.
    """

    module: str
    model: str
    folder: str
    target: str | None
    workspace_mb: int | None
    optimization_level: int | None
    shapes: Mapping[str, Range] = field(default_factory=dict)
    values: Mapping[str, Range] = field(default_factory=dict)
    strongly_typed: bool = True
    precisions: tuple[str, ...] = ()
    tf32: bool = False
    native_instancenorm: bool = True
    version_compatible: bool = False
    hardware_compatibility: str = ""
    timing_cache: str = ""
    calibration: str = ""
    samples: str = ""
    ranges: str = ""


def write_request(request: BuildRequest, file: Path) -> None:
    """Write `request` for the building process."""
    file.write_text(json.dumps(asdict(request)), encoding="utf-8")


def read_request(file: Path) -> BuildRequest:
    """Read what `write_request` wrote."""
    found = json.loads(file.read_text(encoding="utf-8"))
    ranges = {name: _ranges(found[name]) for name in ("shapes", "values")}
    return BuildRequest(**{**found, **ranges, "precisions": tuple(found["precisions"])})


def _ranges(found: dict[str, Any]) -> dict[str, Range]:
    return {name: (tuple(low), tuple(usual), tuple(high)) for name, (low, usual, high) in found.items()}


MISSING_SCALES = "Missing scale and zero-point"


def build_notes(folder: Path) -> tuple[str, ...]:
    """Count the warnings in the log of the build in `folder` that mean that something did not become INT8."""
    count = (folder / LOG_FILE).read_text(encoding="utf-8").count(MISSING_SCALES)
    if not count:
        return ()
    tensors, their = ("1 tensor has", "its layer") if count == 1 else (f"{count} tensors have", "their layers")
    return (f"{tensors} no scale ('{MISSING_SCALES}' in {LOG_FILE}), so {their} may stay in float",)
