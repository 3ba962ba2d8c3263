"""Kill runs in each of their phases, and see that every finished check is in the history once.

A run is killed in each of build, evaluation, timing and append, at a random moment within the phase. The engines are
real, the models small.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from shutil import rmtree

from pytest_quant.history import open_store
from pytest_quant.history.unfinished_runs import recover
from tests.support import models

ROOT = Path(__file__).parents[2]
CHECKS = 4
PHASES = ("build", "evaluation", "timing", "append")
ONCE_A_RUN = ("append",)

CONFTEST = """
import os
from functools import wraps

import numpy as np
import pytest

from pytest_quant import Dataset
from pytest_quant.backends.ort import OrtBackend
from pytest_quant.history.store import Store
from pytest_quant.measure import pipeline, timing

TOLD = os.open("phases", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
FINISHED = os.open("finished", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def telling(phase, place, name):
    real = getattr(place, name)

    @wraps(real)
    def told(*args, **kwargs):
        os.write(TOLD, f"{phase} begins\\n".encode())
        try:
            return real(*args, **kwargs)
        finally:
            os.write(TOLD, f"{phase} ends\\n".encode())

    setattr(place, name, told)


telling("build", OrtBackend, "build")
telling("evaluation", pipeline.EnginePair, "compare")
telling("timing", timing, "time_check")
telling("append", Store, "append")


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    if "quant_record" in vars(report):
        os.write(FINISHED, f"{report.nodeid}\\n".encode())


@pytest.fixture
def quant_model():
    return "model.onnx"


@pytest.fixture
def quant_data(request):
    rng = np.random.default_rng(len(request.node.nodeid) + ord(request.node.nodeid[-1]))
    x = rng.normal(size=(120, 8)).astype(np.float32)
    return Dataset.from_arrays(x, x[:, :4].argmax(axis=1), calibration=40)
"""
"""Says which phase begins and ends, and which checks pytest has reported."""

TEST = """
import pytest

@pytest.mark.quant(max_drop=50.0)
def test_{number}(): pass
"""


def write_project(folder: Path) -> None:
    """Write a project of checks with data of their own, so that each builds, evaluates and times."""
    models.select_first(folder / "model.onnx")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text("".join(TEST.format(number=number) for number in range(CHECKS)))


def kill_in(phase: str, project: Path, moments: random.Random, longest_s: float) -> int:
    """Kill one run of `project` within a phase, and return how many of its checks had finished.

    Raises `AssertionError` where one of these is not stored once.

    Parameters
    ----------
    phase : one of `PHASES`.
    project : see `write_project`.
    moments : draws in which check, and when in the phase.
    longest_s : seconds after the beginning of the phase up to which the kill comes.
    """
    for name in (".quant", "phases", "finished"):
        rmtree(project / name) if (project / name).is_dir() else (project / name).unlink(missing_ok=True)
    place = project / ".quant" / "history.db"
    turn = 1 if phase in ONCE_A_RUN else moments.randint(1, CHECKS)
    process = _start(project)
    begun = f"{phase} begins\n"
    while _read(project / "phases").count(begun) < turn and process.poll() is None:
        time.sleep(0.001)
    time.sleep(moments.uniform(0.0, longest_s))
    os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
    process.wait()
    finished = _read(project / "finished").split()
    for _ in range(2):
        _, refused = recover(place, project)
        assert not refused, refused
        stored = [[record.nodeid for record in records] for _, records in open_store(place).each_run()]
        assert len(stored) == (1 if finished else len(stored)), f"{phase}: {stored}"
        result = Counter(nodeid for run in stored for nodeid in run)
        assert set(finished) <= set(result), f"{phase}: lost {set(finished) - set(result)}"
        assert set(result.values()) <= {1}, f"{phase}: twice {result}"
        # One more may be there: it was on the disk, and the process died before it could say so.
        assert len(result) - len(finished) in (0, 1), f"{phase}: {result} of {finished}"
    assert not list((project / ".quant").glob("*unfinished*"))
    return len(finished)


def lengths(project: Path) -> dict[str, float]:
    """Return the seconds that each phase takes in a run that is not killed."""
    process = _start(project)
    seen: list[tuple[str, float]] = []
    while process.poll() is None:
        lines = _read(project / "phases").splitlines()
        seen += [(line, time.monotonic()) for line in lines[len(seen) :]]
        time.sleep(0.001)
    assert process.returncode == 0, f"a run that nobody kills ends with {process.returncode}"
    taken: dict[str, float] = {}
    for (line, began), (_, ended) in pairwise(seen):
        phase, _, what = line.partition(" ")
        if what == "begins":
            taken[phase] = max(taken.get(phase, 0.0), ended - began)
    return taken


def _start(project: Path) -> subprocess.Popen[bytes]:
    options = ("--quant-max-time=0.3", "--quant-diagnose-time=0", "-p", "no:cacheprovider", "-q")
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *options],
        cwd=project,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "PYTEST_QUANT_LOCKS": str(project / "locks"), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""
