"""``pytest-quant doctor``."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict

import click

from pytest_quant.backends import backend_names
from pytest_quant.cli.common import HISTORY_VARIABLE, history_place, say, show, show_json, split_names
from pytest_quant.doctor.describe import describe
from pytest_quant.doctor.examine import examine
from pytest_quant.doctor.probe import OK
from pytest_quant.errors import UsageError, nearest


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--require", metavar="NAME[,NAME]", help="Exit with 1 unless these backends can run here.")
def doctor(as_json: bool, require: str | None) -> None:
    """Ask every backend whether it can run here: version, device, what is missing and the line that fixes it.

    Exit code: 0, or with --require 1 unless all of those backends can run here, 2 a question that cannot be answered.

    \b
    Examples:
      pytest-quant doctor
      pytest-quant doctor --require=ort,trt     for the first step of a CI job
      pytest-quant doctor --json
    """  # noqa: D301 - click reads a backspace
    required = split_names(require)
    for name in required:
        if name not in backend_names():
            raise UsageError(f"unknown backend '{name}'", allowed=nearest(name, backend_names()))
    examination = examine(history_place(os.environ.get(HISTORY_VARIABLE)))
    if as_json:
        show_json(asdict(examination), indent=2)
    else:
        show(describe(examination))
    absent = [state for state in examination.backends if state.name in required and state.state != OK]
    for state in absent:
        say(f"required, but {state.name} cannot run here: {state.reason}", color="red", err=True)
    sys.exit(1 if absent else 0)
