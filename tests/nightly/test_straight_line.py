"""A check goes one way through the package: nothing of it is read, encoded or decoded twice."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.example import ROOT


@pytest.fixture(scope="module")
def counted() -> dict[str, int]:
    """What ``python -m tests.straight_line`` prints at its end, by its words."""
    command = [sys.executable, "-m", "tests.straight_line"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    numbers = (line.strip().split("  ", 1) for line in done.stdout.splitlines())
    return {words: int(number) for number, words in (pair for pair in numbers if pair[0].isdigit())}


@pytest.mark.parametrize("step", ["the mark is read", "a record is encoded", "a record is decoded"])
def test_a_step_is_taken_once(counted: dict[str, int], step: str) -> None:
    """The record is written into the history, too, from the JSON that it has."""
    assert counted[step] == 1
