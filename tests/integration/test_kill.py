"""A run that is killed at any moment takes nothing with it."""

from __future__ import annotations

import time
from pathlib import Path

from tests.support.kill_example import kill_and_recover

TIMES = 5
SLOW = ("test_magika.py::test_dynamic",)
"""It spends half of a run in one long evaluation; ``python -m tests.support.kill_example`` leaves it in."""


def test_runs_killed_at_random_moments_leave_nothing_wrong(tmp_path: Path) -> None:
    """After each of five, the next run is right and complete, and the one after it builds nothing."""
    seed = time.time_ns() % 2**32
    kills = list(kill_and_recover(tmp_path, TIMES, seed, without=SLOW))
    assert len(kills) == TIMES
    assert not all(kill.ended for kill in kills), f"no run was killed, seed {seed}"
