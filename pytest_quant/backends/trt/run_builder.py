"""Run the builder in a process of its own, and turn how it ended into an engine or an error."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from pytest_quant.backends.failure import failed_with_text
from pytest_quant.backends.trt.refusal import next_step
from pytest_quant.backends.trt.request import LOG_FILE, BuildRequest, write_request

MODULE = "pytest_quant.backends.trt.builder"
TIME_LIMIT_S = 3600.0
_LINES_SHOWN = 6


def run_builder(request: BuildRequest, name: str) -> None:
    """Build what `request` asks for; `name` is what errors call the engine.

    Raises
    ------
    BuildError : TensorRT refused the model, or its process crashed; with what it said.
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
