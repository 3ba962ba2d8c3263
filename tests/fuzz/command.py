"""One command of ``pytest-quant`` in this process, as a shell would run it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from pytest_quant.cli import main
from tests.fuzz.hunt import check_message

_CODES = (0, 1, 2, 3, 4)
VARIABLES = {
    "GIT_CEILING_DIRECTORIES": "/",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_SSH_COMMAND": "false",
    "GIT_ALLOW_PROTOCOL": "file",
    "GIT_TERMINAL_PROMPT": "0",
}
"""Nobody but this machine is asked, and no setting of its user counts."""


def run_command(words: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run ``pytest-quant`` in `folder` and return its exit code and all that it printed.

    Raises
    ------
    AssertionError : it ended with a code that it does not have, or printed what a terminal acts upon.
    Exception : what came out of it.
    """
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with (
        chdir(folder),
        patch.dict(os.environ, VARIABLES),
        patch.object(sys, "argv", ["pytest-quant", *words]),
        redirect_stdout(out),
        redirect_stderr(out),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    out.seek(0)
    text = out.read()
    if code not in _CODES:
        raise AssertionError(f"pytest-quant ended with {code!r}: {text}")
    check_message(text)
    return int(code), text
