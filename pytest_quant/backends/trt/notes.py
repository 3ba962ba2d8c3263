"""What the log of a build says that the reader should know."""

from __future__ import annotations

from pathlib import Path

from pytest_quant.backends.trt.request import LOG_FILE

MISSING_SCALES = "Missing scale and zero-point"


def build_notes(folder: Path) -> tuple[str, ...]:
    """Count the warnings in the log of the build in `folder` that mean that something did not become INT8."""
    count = (folder / LOG_FILE).read_text(encoding="utf-8").count(MISSING_SCALES)
    if not count:
        return ()
    tensors, their = ("1 tensor has", "its layer") if count == 1 else (f"{count} tensors have", "their layers")
    return (f"{tensors} no scale ('{MISSING_SCALES}' in {LOG_FILE}), so {their} may stay in float",)
