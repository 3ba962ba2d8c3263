"""A logger for TensorRT that keeps its lines: the reasons for a refusal are nowhere else."""

from __future__ import annotations

from typing import Any

_BAD = ("[ERROR]", "[INTERNAL_ERROR]")
_LINES_SHOWN = 3


def make_logger(trt: Any, lines: list[str]) -> Any:
    """Return a logger that appends every line to `lines`, severity in front. Keep a reference to it."""

    class Logger(trt.ILogger):  # type: ignore[misc]
        """Keeps every line with its severity in front."""

        def __init__(self) -> None:
            # Without this call of the binding's own constructor the first line crashes the process.
            trt.ILogger.__init__(self)

        def log(self, severity: Any, msg: str) -> None:
            lines.append(f"[{str(severity).rpartition('.')[2]}] {msg}")

    return Logger()


def complaints(lines: list[str]) -> str:
    """Return what the log says of errors, or its last lines."""
    bad = [line for line in lines if line.startswith(_BAD)]
    return "\n".join(bad or lines[-_LINES_SHOWN:]) or "the log says nothing"
