"""Real launches, run by run, replayed on a clock that only their runs move, and what is judged of them.

A launch is a process that opens the engines of a check and times them. Its runs are in `runs.npz`, one after the other,
and what they belong to is in `launches.json`. `verdicts.jsonl` holds what was judged when they were recorded.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.measure.interleave import Call
from pytest_quant.measure.latency_figures import MachineState
from pytest_quant.measure.timed_rounds import Calls, Reopening, measure
from pytest_quant.measure.timing import join_launches, plan_for, time_with_confirmation
from pytest_quant.result import LatencyResult
from pytest_quant.spec import LatencyPlan, Limits
from pytest_quant.stats.means import LAUNCH_LOOKS, LOOK_CONFIDENCE
from pytest_quant.verdict import Judge
from pytest_quant.verdict.latency_limits import latency_verdicts
from tests.unit.record.examples import a_check

RECORDED = Path(__file__).parent
PLAN = LatencyPlan(max_s=3.0)
LEAST_SPEEDUP = 1.0 / 1.03
"""Three percent slower than the reference."""

_STILL = MachineState(0.0, 0.0, 0.0, 0.0, 0, 0)


@dataclass(frozen=True, slots=True)
class SessionRuns:
    """Three open sessions: nanoseconds that opening them took, and of each run of reference, null and candidate."""

    opening_ns: int
    runs_ns: tuple[NDArray[np.uint32], ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a model, beside a load or none, whose candidate does so many percent more of the same work."""

    model: str
    load: str
    more_pct: float
    weights_bytes: int
    sets: tuple[SessionRuns, ...]

    @property
    def arm(self) -> str:
        """Name of the launches that differ by chance alone."""
        return f"{self.model} {self.load} +{self.more_pct:g} %"


@cache
def launches_by_arm() -> dict[str, list[Launch]]:
    """Read the recorded launches."""
    with np.load(RECORDED / "runs.npz") as file:
        runs_ns = file["runs_ns"]
    result: dict[str, list[Launch]] = {}
    first = 0
    for listed in json.loads((RECORDED / "launches.json").read_text("utf-8")):
        sets = []
        for of_set in listed.pop("sets"):
            ends = first + np.cumsum([0, *of_set["runs"]])
            sides = tuple(runs_ns[start:end] for start, end in itertools.pairwise(ends))
            sets.append(SessionRuns(of_set["opening_ns"], sides))
            first = int(ends[-1])
        launch = Launch(**listed, sets=tuple(sets))
        result.setdefault(launch.arm, []).append(launch)
    return result


class Replay:
    """A clock, and calls that move it by what the runs of a launch took; runs that are used up begin again."""

    def __init__(self, launch: Launch) -> None:
        self._now_ns = 0
        self._sets = itertools.cycle(launch.sets)

    def clock(self) -> int:
        """Nanoseconds from the start."""
        return self._now_ns

    def open(self) -> Calls:
        """Open the next sessions."""
        opened = next(self._sets)
        self._now_ns += opened.opening_ns
        reference, null, candidate = (self._call(runs_ns) for runs_ns in opened.runs_ns)
        return reference, null, candidate

    def _call(self, runs_ns: NDArray[np.uint32]) -> Call:
        left = itertools.cycle(runs_ns.tolist())

        def run() -> None:
            self._now_ns += next(left)

        return run


def measured(launch: Launch, plan: LatencyPlan) -> LatencyResult:
    """Measure a launch once more, as it was."""
    replay = Replay(launch)
    calls = replay.open()
    reopening = Reopening(replay.open, launch.sets[0].opening_ns, launch.weights_bytes)
    return measure(calls, plan, clock=replay.clock, machine=lambda: _STILL, reopening=reopening)


def timed(launch: Launch, following: Launch, limits: Limits) -> LatencyResult:
    """Time a check as the plugin does: `following` is the second measurement, before a limit fails."""
    check = replace(a_check(), limits=limits)
    left = iter((launch, following))
    return time_with_confirmation(plan_for(check, PLAN), lambda once: measured(next(left), once), Judge(limits))


def rows() -> Iterator[dict[str, Any]]:
    """Judge every launch by itself, those of an arm together, and histories of them."""
    for arm, launches in launches_by_arm().items():
        allowed = _allowed_ms(launches[0])
        pairs = list(zip(launches, launches[1:] + launches[:1], strict=True))
        for index, (launch, following) in enumerate(pairs):
            by_name = {"speedup": Limits(min_speedup=LEAST_SPEEDUP), "latency": Limits(max_latency_ms=allowed)}
            for name, limits in by_name.items():
                latency = timed(launch, following, limits)
                yield {"arm": arm, "launch": index, "limit": name, **_said(limits, latency)}
        results = [timed(*pair, Limits(min_speedup=LEAST_SPEEDUP)) for pair in pairs]
        sound = [result for result in results if not result.reasons]
        for look in LAUNCH_LOOKS:
            if len(sound) >= look:
                together = join_launches(sound[0], sound[:look], LOOK_CONFIDENCE)
                yield {"arm": arm, "launches": look, **_said(Limits(min_speedup=LEAST_SPEEDUP), together)}


def _allowed_ms(launch: Launch) -> tuple[tuple[float, float], ...]:
    """Return limits on percentiles near what the reference takes."""
    median, tail = np.percentile(launch.sets[0].runs_ns[0], (50, 90)) / 1e6
    return (50.0, round(1.02 * float(median), 4)), (90.0, round(1.1 * float(tail), 4))


def _said(limits: Limits, latency: LatencyResult) -> dict[str, Any]:
    over = latency.over
    speedup, span = (latency.speedup, latency.speedup_ci) if over is None else (over.speedup, over.speedup_ci)
    return {
        "verdicts": [verdict.status.value for verdict in latency_verdicts(limits, latency)],
        "rounds": latency.rounds,
        "repeated": latency.repeat is not None,
        "speedup": [float(f"{each:.6g}") for each in (speedup, span.low, span.high)],
    }
