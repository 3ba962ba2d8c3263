"""A run that is killed at any moment takes nothing with it."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.nightly.killed_runs import PHASES, kill_in, lengths, write_project
from tests.support.example import run_example


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, float]]:
    """A project whose runs are killed, and the seconds that each phase takes in a run that is not."""
    folder = tmp_path_factory.mktemp("killed")
    write_project(folder)
    return folder, lengths(folder)


@pytest.mark.parametrize("phase", PHASES)
def test_what_a_killed_run_leaves_is_whole(killed: tuple[Path, dict[str, float]], phase: str) -> None:
    """Every finished check is stored once, the next run is right and complete, and the one after it builds nothing."""
    project, longest = killed
    seed = time.time_ns() % 2**32
    finished = kill_in(phase, project, random.Random(seed), longest[phase])  # noqa: S311 - not for secrets
    assert finished or phase != "append", f"seed {seed}"
    again, third = (run_example(project, "--quant-no-latency", locks=project / "locks") for _ in range(2))
    assert (again.returncode, third.returncode) == (0, 0), f"seed {seed}: {again.output}"
    assert {check["cache"]["engine"] for check in third.checks.values()} == {"hit"}
    figures = [{name: check["accuracy"] for name, check in run.checks.items()} for run in (again, third)]
    assert figures[0] == figures[1]
