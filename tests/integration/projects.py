"""A user's project in a temporary folder, and what a run of it left."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import models
from tests.support.example import ROOT, WITHOUT_PLUGINS, environment
from tests.support.in_process import run_here

CONFTEST = """
import numpy as np
import pytest
from pytest_quant import Dataset


@pytest.fixture
def quant_model():
    return {model!r}


@pytest.fixture
def quant_data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 8)).astype(np.float32)
    y = x[:, :4].argmax(axis=1)
    {data}
"""

DATA = "return Dataset.from_arrays(x, y, calibration=40)"

TEST = """
import pytest


@pytest.mark.quant({mark})
def test_model():
    {body}
"""


def write_project(
    pytester: pytest.Pytester,
    *,
    data: str = DATA,
    mark: str = "max_drop=5.0",
    model: str = "model.onnx",
    body: str = "pass",
) -> None:
    """Write a project with one marked test; `data` is the last line of its ``quant_data``."""
    pytester.makeconftest(CONFTEST.format(model=model, data=data))
    pytester.makepyfile(test_model=TEST.format(mark=mark, body=body))


def run_project(pytester: pytest.Pytester, *args: str) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
    """Run the project in this process without timing; return the result and its checks."""
    return _run(pytester, lambda *all_args: run_here(pytester, *all_args), *args)


def run_marks(
    pytester: pytest.Pytester, marks: Mapping[str, str], *args: str
) -> tuple[pytest.RunResult, dict[str, dict[str, Any]]]:
    """Run one test for each mark in one run of this process; return the result and the checks by the marks' names."""
    tests = (f"@pytest.mark.quant({mark})\ndef test_{name}(): pass\n\n\n" for name, mark in marks.items())
    (pytester.path / "test_marks.py").write_text("import pytest\n\nimport pytest_quant\n\n\n" + "".join(tests))
    result, checks = run_project(pytester, *args)
    return result, {check["nodeid"].partition("::test_")[2].partition("[")[0]: check for check in checks}


def run_project_apart(pytester: pytest.Pytester, *args: str) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
    """Run the project in a process of its own: for what changes the process, or is about processes."""
    return _run(pytester, pytester.runpytest_subprocess, *WITHOUT_PLUGINS, *args)


def run_elsewhere(
    python: Path, folder: Path, mark: str, *args: str
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """Run a project with one good check by another interpreter, without timing; return the end and its checks."""
    models.select_first(folder / "model.onnx")
    (folder / "conftest.py").write_text(CONFTEST.format(model="model.onnx", data=DATA))
    (folder / "test_model.py").write_text(TEST.format(mark=mark, body="pass"))
    (folder / "pytest.ini").write_text("[pytest]\n")
    document = folder / "run.json"
    document.unlink(missing_ok=True)
    options = ("-p", "no:cacheprovider", "--quant-no-latency", f"--quant-json={document}", *args)
    result = subprocess.run(
        (python, "-m", "pytest", *options),
        cwd=folder,
        env=environment() | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    return result, read_checks(document)


def _run(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult], *args: str
) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
    document = pytester.path / "run.json"
    document.unlink(missing_ok=True)
    result = run("--quant-no-latency", f"--quant-json={document}", *args)
    return result, read_checks(document)


def read_checks(document: Path) -> list[dict[str, Any]]:
    """Return the checks of a ``--quant-json`` file, none when there is no file."""
    if not document.exists():
        return []
    checks: list[dict[str, Any]] = json.loads(document.read_text("utf-8"))["checks"]
    return checks


def output(result: pytest.RunResult) -> str:
    """Return everything the run printed."""
    return result.stdout.str() + result.stderr.str()
