"""Kill runs in each of their phases, and see that every finished check is in the history once.

``python -m tests.kills --times 100`` kills a hundred runs in each of build, evaluation, timing and append, at random
moments within the phase, and prints a line for each phase. The engines are real, the models small.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from shutil import rmtree

from pytest_quant.history import open_store
from pytest_quant.history.unfinished_runs import recover
from tests.support import models

ROOT = Path(__file__).parents[1]
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
from pytest_quant.measure import bench, pipeline

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
telling("evaluation", bench.Bench, "compare")
telling("timing", pipeline, "time_check")
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


@dataclass
class Count:
    """The kills of one phase: how many fell into it, and the finished checks, which were all stored once."""

    kills: int = 0
    within: int = 0
    ended: int = 0
    finished: int = 0


def write_project(folder: Path) -> None:
    """Write a project of checks with data of their own, so that each builds, evaluates and times."""
    models.select_first(folder / "model.onnx")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text("".join(TEST.format(number=number) for number in range(CHECKS)))


def kill_in(phase: str, project: Path, moments: random.Random, longest_s: float, count: Count) -> None:
    """Kill one run of `project` within a phase, and raise `AssertionError` where a finished check is not stored once.

    Parameters
    ----------
    phase : one of `PHASES`.
    project : see `write_project`.
    moments : draws in which check, and when in the phase.
    longest_s : seconds after the beginning of the phase up to which the kill comes.
    count : takes the result.
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
    count.ended += process.poll() is not None
    os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
    process.wait()
    lines = _read(project / "phases").splitlines()
    count.kills += 1
    count.within += bool(lines) and lines[-1] == begun.strip()
    finished = _read(project / "finished").split()
    count.finished += len(finished)
    for _ in range(2):
        _, refused = recover(place, project)
        assert not refused, refused
        stored = [[record.nodeid for record in records] for _, records in open_store(place).each_run()]
        assert len(stored) == (1 if finished else len(stored)), f"{phase}: {stored}"
        found = Counter(nodeid for run in stored for nodeid in run)
        assert set(finished) <= set(found), f"{phase}: lost {set(finished) - set(found)}"
        assert set(found.values()) <= {1}, f"{phase}: twice {found}"
        # One more may be there: it was on the disk, and the process died before it could say so.
        assert len(found) - len(finished) in (0, 1), f"{phase}: {found} of {finished}"
    assert not list((project / ".quant").glob("*unfinished*"))


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


def kill_all(folder: Path, times: int, seed: int, phases: tuple[str, ...] = PHASES) -> dict[str, Count]:
    """Kill `times` runs in each of `phases`; raise `AssertionError` where a finished check is not stored once."""
    moments = random.Random(seed)  # noqa: S311 - not for secrets
    write_project(folder)
    longest = lengths(folder)
    counts = {phase: Count() for phase in phases}
    for phase in phases:
        for _ in range(times):
            kill_in(phase, folder, moments, longest[phase], counts[phase])
    return counts


def main(show: Callable[[str], object] = print) -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--phase", choices=PHASES, action="append")
    arguments = parser.parse_args()
    show(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory() as folder:
        phases = tuple(arguments.phase or PHASES)
        for phase, count in kill_all(Path(folder), arguments.times, arguments.seed, phases).items():
            show(
                f"{phase}: {count.kills} kills, {count.within} within it, {count.ended} after the run had ended; "
                f"{count.finished} finished checks, each stored once"
            )


if __name__ == "__main__":
    main()
