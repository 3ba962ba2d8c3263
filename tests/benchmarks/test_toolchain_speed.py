"""INT8 against FP32 in each toolchain on the CPU, with the coverage beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.example import ROOT, environment

CONFTEST = """
import numpy as np
import pytest
import torch
from pytest_quant import Dataset, Model
from tests.benchmarks.resnet18 import resnet18


@pytest.fixture(scope="session")
def quant_model():
    return Model.from_torch(resnet18(), (torch.zeros(2, 3, 224, 224),), name="resnet18-shape")


@pytest.fixture(scope="session")
def quant_data():
    images = np.random.default_rng(0).normal(size=(8, 3, 224, 224)).astype(np.float32)
    return Dataset.from_arrays(images, calibration=4)
"""
TEST = """
import pytest


@pytest.mark.quant(backend=["ort", "openvino", "torch"], min_coverage=90)
def test_speed():
    pass
"""
COLUMNS = "model,backend,precision,agreement,sqnr,p50,speedup,coverage,size,status"
PATHS = {"PYTHONPATH": str(ROOT)}


def test_resnet18_shape(tmp_path: Path, show: Callable[[str], None]) -> None:
    """In all three every INT8 engine really runs INT8; the table of speeds is printed."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_speed.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--quant-max-time=5",
        f"--quant-columns={COLUMNS}",
    ]
    run = subprocess.run(
        command, cwd=tmp_path, env=environment() | PATHS, capture_output=True, text=True, check=False, timeout=900
    )
    show(_table(run.stdout))
    assert run.returncode == 0, run.stdout + run.stderr


def _table(output: str) -> str:
    """Return our section of a run's output."""
    _, found, section = output.rpartition(" quant ")
    if not found:
        pytest.fail(f"no table was printed:\n{output}")
    return section.partition("\n")[2]
