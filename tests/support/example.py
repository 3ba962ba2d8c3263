"""The example project: a copy of it, and runs of that copy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_quant.measure.lock import FOLDER_VARIABLE

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "example_project"
TIME_LIMIT_S = 3600
WITHOUT_PLUGINS = ("-p", "no:anyio", "-p", "no:hypothesispytest")
"""For runs that need neither: to import them takes a quarter of the shortest run."""


@dataclass(frozen=True, slots=True)
class ExampleRun:
    """One finished run: its exit code, how long it took, what it printed, and the document of ``--quant-json``."""

    returncode: int
    seconds: float
    output: str
    document: dict[str, Any]

    @property
    def checks(self) -> dict[str, dict[str, Any]]:
        """The checks by the name of their test, ``test_magika.py::test_dynamic``."""
        return {check["nodeid"]: check for check in self.document["checks"]}


def copy_example(folder: Path) -> Path:
    """Copy the example as a user would have it, without what earlier runs left in it."""
    target = folder / "example"
    shutil.copytree(EXAMPLE, target, ignore=shutil.ignore_patterns(".quant", "__pycache__", ".pytest_cache"))
    return target


def command(*arguments: str) -> list[str]:
    """Return the command line of a run."""
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--quant-json=run.json", *arguments]


def environment(locks: Path | None = None) -> dict[str, str]:
    """Return this environment without what a running pytest adds to it, but for the locks of its run.

    pytest loads neither of the plugins that no run needs there.

    With a folder for `locks`, a run neither waits for what others time nor keeps them waiting: for runs whose
    latencies do not matter.
    """
    plain = {
        name: value
        for name, value in os.environ.items()
        if name == FOLDER_VARIABLE or not name.startswith(("PYTEST_", "COV_"))
    }
    plain["PYTEST_ADDOPTS"] = " ".join(WITHOUT_PLUGINS)
    return plain if locks is None else plain | {FOLDER_VARIABLE: str(locks)}


def run_example(project: Path, *arguments: str, locks: Path | None = None) -> ExampleRun:
    """Run the copy to its end and read what it wrote."""
    document = project / "run.json"
    document.unlink(missing_ok=True)
    started = time.monotonic()
    result = subprocess.run(
        command(*arguments),
        cwd=project,
        env=environment(locks),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_LIMIT_S,
    )
    seconds = time.monotonic() - started
    output = result.stdout + result.stderr
    assert document.is_file(), output
    return ExampleRun(result.returncode, seconds, output, json.loads(document.read_text("utf-8")))


_INTERRUPTIBLE = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def interruptible(module: str, *arguments: str) -> list[str]:
    """Return the command line of ``python -m module`` that Ctrl-C ends.

    What a shell runs in the background ignores it, and so do its children: a run of the tests may be one of them.
    """
    return [sys.executable, "-c", _INTERRUPTIBLE, module, *arguments]
