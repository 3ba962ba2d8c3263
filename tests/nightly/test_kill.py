"""A run that is killed at any moment takes nothing with it."""

from __future__ import annotations

import time
from pathlib import Path

from tests.kills import PHASES, kill_all
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


def test_every_check_that_had_finished_is_stored_once(tmp_path: Path) -> None:
    """One kill in each phase; ``python -m tests.kills`` does a hundred."""
    counts = kill_all(tmp_path, 1, time.time_ns() % 2**32)
    assert {phase: count.kills for phase, count in counts.items()} == dict.fromkeys(PHASES, 1)
    assert counts["append"].finished
