"""Arms of the experiment: trials of one kind, done in turn so that all of them see the same minutes."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.benchmarks.detection.ledger import Found, Ledger

Trial = Callable[[int], Found]
"""Makes one trial from a seed."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Trials of one kind.

    Attributes
    ----------
    key : of its lines in the ledger.
    wanted : number of trials.
    trial : makes one; all that is random in it comes from its seed, but for what a real machine does.
    """

    key: str
    wanted: int
    trial: Trial


def seed_of(seed: int, arm: Arm, number: int) -> int:
    """Return the seed of one trial: the same in each run, another one in each arm."""
    return zlib.crc32(f"{seed} {arm.key} {number}".encode())


def next_arm(arms: Sequence[Arm], ledger: Ledger) -> Arm | None:
    """Return the arm that is furthest behind, the first of equal ones; ``None`` when all are done."""
    share = {arm.key: len(ledger.trials(arm.key)) / arm.wanted for arm in arms}
    behind = min(arms, key=lambda arm: share[arm.key], default=None)
    return None if behind is None or share[behind.key] >= 1.0 else behind


def work(
    arms: Sequence[Arm],
    ledger: Ledger,
    seed: int,
    until_s: float,
    show: Callable[[str], None],
) -> bool:
    """Make the trials that the ledger lacks, and return whether all are done.

    Parameters
    ----------
    arms : in the order in which equals are done.
    ledger : where each trial is kept as soon as it is made.
    seed : of all trials.
    until_s : of the monotonic clock, after which no trial begins.
    show : told one line about now and then.
    """
    began, shown = time.monotonic(), time.monotonic()
    while (arm := next_arm(arms, ledger)) is not None:
        if time.monotonic() >= until_s:
            return False
        number = ledger.next_number(arm.key)
        ledger.add(arm.key, number, arm.trial(seed_of(seed, arm, number)))
        if time.monotonic() - shown >= _SHOWN_EVERY_S:
            shown = time.monotonic()
            done = sum(min(len(ledger.trials(each.key)), each.wanted) for each in arms)
            wanted = sum(each.wanted for each in arms)
            show(f"{done} of {wanted} trials after {(shown - began) / 60.0:.1f} min, last of {arm.key}")
    return True


_SHOWN_EVERY_S = 15.0
