"""ONNX Runtime itself: its version, and keeping it quiet."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout


def runtime_version() -> str:
    """Return the version of the onnxruntime that is imported, whichever wheel brought it."""
    import onnxruntime

    return str(onnxruntime.__version__)


@contextmanager
def quiet() -> Iterator[list[str]]:
    """Keep the quantizer's prints and log lines off the screen, and give the errors that it only logs.

    One of its modules calls ``logging.basicConfig`` when it is imported; a handler that is already there makes that
    do nothing, so the user's logging stays as it was.
    """
    errors: list[str] = []
    handler = _Errors(errors)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        with redirect_stdout(io.StringIO()):
            yield errors
    finally:
        root.removeHandler(handler)


class _Errors(logging.Handler):
    """Keeps what is logged as an error by ONNX Runtime."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__()
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR and record.name.startswith("onnxruntime"):
            self._errors.append(record.getMessage())
