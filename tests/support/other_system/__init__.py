"""Processes that look like those of macOS or Windows to the package; `sitecustomize` beside this says how."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.example import ROOT, environment

SYSTEMS = ("darwin", "windows")


def variables(system: str, locks: Path) -> dict[str, str]:
    """Return the environment of a process on a system, with the folder of its locks."""
    path = os.pathsep.join((str(Path(__file__).parent), str(ROOT)))
    return environment(locks) | {"EMULATED_SYSTEM": system, "PYTHONPATH": path, "COLUMNS": "200"}
