"""Change points of histories that are looked at commit by commit: false alarms, and steps that are told."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from pytest_quant.history.trends import find_changes
from tests.benchmarks.detection.arms import Arm
from tests.benchmarks.detection.ledger import Found, Ledger
from tests.benchmarks.detection.rates import counted
from tests.benchmarks.detection.table import Row, at_least, at_most
from tests.unit.history.in_memory import a_point

COMMITS, SD = 40, 0.01
FALSE_AT_MOST_PCT = 6.0
FOUND_AT_LEAST_PCT = 80.0


def autoregressive(n: int, correlation: float, random: np.random.Generator) -> list[float]:
    """Return speedups whose logarithms have a spread of 1 %, each correlated with the one before it."""
    noise = random.normal(0.0, 1.0, n)
    values = [float(noise[0])]
    for each in noise[1:]:
        values.append(correlation * values[-1] + math.sqrt(1.0 - correlation**2) * float(each))
    return [math.exp(SD * value) for value in values]


def alarm(speedups: Sequence[float], family: int) -> bool:
    """Return whether one of the looks at a growing series told a change."""
    points = [a_point(number, speedup=speedup) for number, speedup in enumerate(speedups)]
    return bool(find_changes(points, family=family))


def look_once(commits: int, correlation: float, series: int, seed: int) -> Found:
    """Make families of series that never change, go through each as it grew, and count those with an alarm."""
    random = np.random.default_rng(seed)
    families = max(1, FALSE_BATCH // series)
    alarms = sum(
        any(alarm(autoregressive(commits, correlation, random), series) for _ in range(series)) for _ in range(families)
    )
    return {"n": families, "alarms": alarms}


def step(before: int, pct: float, series: int, seed: int) -> Found:
    """Make steps after `before` commits, and count those that are told with the fifth commit of the new level."""
    random = np.random.default_rng(seed)
    alarms = 0
    for _ in range(STEP_BATCH):
        speedups = autoregressive(before + 5, 0.0, random)
        slower = [speed / (1.0 + pct / 100.0) if number >= before else speed for number, speed in enumerate(speedups)]
        alarms += alarm(slower, series)
    return {"n": STEP_BATCH, "told": alarms}


QUIET = {
    "iid": (COMMITS, 0.0, 1),
    "AR(0.2)": (COMMITS, 0.2, 1),
    "AR(0.4)": (COMMITS, 0.4, 1),
    "20 series": (COMMITS, 0.0, 20),
}
FALSE_BATCH, FALSE_BATCHES, STEP_BATCH, STEP_BATCHES = 20, 25, 20, 10
STEPS = {"one series": (20, 5.0, 1), "20 series": (20, 5.0, 20)}


def arms() -> list[Arm]:
    """One for each kind of noise, and each number of series."""
    false = [Arm(f"changes {name}", FALSE_BATCHES, partial(look_once, *how)) for name, how in QUIET.items()]
    return [*false, *(Arm(f"changes step {name}", STEP_BATCHES, partial(step, *how)) for name, how in STEPS.items())]


def rows(ledger: Ledger) -> Iterator[Row]:
    """False alarms, and steps told."""
    for name in QUIET:
        figure = f"change points, {COMMITS} commits looked at one by one, no change, {name}: any alarm"
        yield at_most(figure, counted(ledger, f"changes {name}", "alarms"), FALSE_AT_MOST_PCT)
    for name, (before, pct, _) in STEPS.items():
        figure = f"change points, +{pct:g} % after {before} commits of sd 1 %, {name}: told with its fifth commit"
        yield at_least(figure, counted(ledger, f"changes step {name}", "told"), FOUND_AT_LEAST_PCT)
