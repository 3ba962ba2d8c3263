"""The engines of one test of both sides, timed in pairs of fresh processes, one measurement at a time on a device."""

from __future__ import annotations

import math
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pytest_quant.errors import LaunchError
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.pairs import PairedTimes, TimedPair, time_pair, time_pairs
from pytest_quant.measure.steps import Steps
from pytest_quant.measure.timing_process import TimingProcess, read_header
from pytest_quant.sides.left import Left, launch_file
from pytest_quant.spec import LatencyPlan

LIMIT_PCT = 5.0
"""Largest slow-down in percent of a test whose mark names none."""


@dataclass(frozen=True, slots=True)
class PairTimer:
    """Times tests of both sides against each other.

    Attributes
    ----------
    steps : shows long steps to the user.
    locks : of devices.
    step_timeout_s : longest single answer of a process, in seconds; ``None`` for no bound.
    max_s : longest timing of one pair, in seconds.
    """

    steps: Steps
    locks: DeviceLocks
    step_timeout_s: float | None
    max_s: float = LatencyPlan().max_s

    def __call__(
        self, base: tuple[Left, str], head: tuple[Left, str], limit_pct: float, *, same_reference: bool
    ) -> PairedTimes:
        """Time the candidate of the head against that of the base.

        Parameters
        ----------
        base, head : the sides, each with the node id of the test there.
        limit_pct : largest slow-down that is allowed, in percent.
        same_reference : see `time_pairs`.

        Raises
        ------
        LaunchError : an engine cannot be opened in a process of its own.
        QuantError : a device was not free in time.
        """
        files = [_described(left, nodeid) for left, nodeid in (base, head)]
        headers = [read_header(file) for file in files]
        devices = {device for header in headers for device in header.devices}
        plan = LatencyPlan(max_s=self.max_s, seed=zlib.crc32(head[1].encode()))

        def launch(place: int) -> TimingProcess:
            left = (base, head)[place][0]
            return TimingProcess(
                files[place],
                python=left.python,
                cwd=left.cwd,
                environment=left.environment,
                limit_s=self.step_timeout_s,
            )

        def one_pair(number: int) -> TimedPair:
            with ExitStack() as held:
                held.enter_context(self.locks.exclusive(*devices))
                held.enter_context(self.steps.show(f"timing {headers[1].what} of both commits, pair {number + 1}"))
                return time_pair(
                    held.enter_context(launch(0)), held.enter_context(launch(1)), plan, seed=plan.seed + number
                )

        return time_pairs(one_pair, math.log1p(limit_pct / 100.0), same_reference=same_reference)


def _described(left: Left, nodeid: str) -> Path:
    file = launch_file(left.folder, nodeid)
    if not file.is_file():
        why = file.with_suffix(".why")
        told = why.read_text("utf-8") if why.is_file() else f"the engines of {nodeid} were not described"
        raise LaunchError(told, fix="name files and importable objects in the mark, not objects of the test's module")
    return file
