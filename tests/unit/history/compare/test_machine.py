"""What series on one machine share: its shift, and the noise of launches."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
import pytest

from pytest_quant.history.baselines.launches import SPEEDUP
from pytest_quant.history.compare.machine import FEWEST_SERIES, Machine, launches_of, machines_of
from pytest_quant.history.compare.pairing import Pair
from pytest_quant.history.rows import identity_of
from pytest_quant.history.summaries import CheckSummary
from pytest_quant.result import NOTHING_KNOWN, Status
from tests.unit.history.compare.launched import launches, record_of, timed


def pair(series: int, base: Sequence[tuple[float, float]], head: Sequence[tuple[float, float]]) -> Pair:
    """Launches of one series, each with the ms of its candidate and its reference."""
    sides = (
        tuple(launches([timed(record_of(f"t.py::t{series}", latency=True), *ms) for ms in side], commit=commit))
        for commit, side in (("base", base), ("head", head))
    )
    return Pair(f"s{series}", *sides)


def test_the_shift_is_the_median_over_all_engines() -> None:
    """Of five series on a machine that became 5 % slower, one candidate doubled, and one reference halved."""
    same = [(0.5, 1.0)] * 2, [(0.525, 1.05)] * 2
    pairs = [pair(number, *same) for number in range(3)]
    pairs += [pair(3, same[0], [(1.0, 1.05)] * 2), pair(4, same[0], [(0.525, 0.5)] * 2)]
    (machine,) = machines_of(pairs, ()).values()
    assert machine.shift == pytest.approx(math.log(1.05))
    (few,) = machines_of(pairs[: FEWEST_SERIES - 1], ()).values()
    assert few.shift is None
    assert machines_of([], ()) == {}


def test_the_noise_of_a_series_is_drawn_to_that_of_all() -> None:
    """Twelve series with the same true noise: each one's own four degrees of freedom become those of all."""
    random = np.random.default_rng(2)
    pairs = [
        pair(number, *([(0.5 * math.exp(random.normal(0.0, 0.01)), 1.0) for _ in range(3)] for _ in range(2)))
        for number in range(12)
    ]
    (machine,) = machines_of(pairs, ()).values()
    sides = [launches_of(one.base, one.head) for one in pairs]
    own = [
        statistics.mean(statistics.variance(launch.value for launch in side.figures[SPEEDUP]) for side in both)
        for both in sides
    ]
    found = machine.noise_of("s0", *sides[0])[SPEEDUP]
    assert found.within.freedom > 4.0
    assert min(own) < found.within.variance < max(own)
    assert abs(found.within.variance - 1e-4) < max(abs(one - 1e-4) for one in own)
    assert (found.between.freedom, machine.shift is None) == (0.0, False)


def test_days_are_known_from_earlier_commits_of_the_same_machine() -> None:
    """Not from another one, nor for a series that those commits did not have, unless others share theirs.

    What others share counts for four degrees of freedom at most.
    """
    ours = pair(0, [(0.5, 1.0)] * 2, [(0.5, 1.0)] * 2)
    identity = identity_of(ours.base[0].run, ours.base[0].record)
    speedups = np.exp(np.random.default_rng(3).normal(0.7, 0.01, 21))

    def earlier(series: str, machine: str) -> list[CheckSummary]:
        return [
            CheckSummary(
                f"e{day}", f"2026-02-{day:02}T12:00:00+00:00", f"e{day}", "main", False, series, "", machine, "",
                Status.PASS, speedup=float(speedup),
            )
            for day, speedup in enumerate(speedups, 1)
        ]  # fmt: skip

    def noise(points: list[CheckSummary]) -> float:
        (machine,) = machines_of([ours], points).values()
        return machine.noise_of("s0", *launches_of(ours.base, ours.head))[SPEEDUP].between.freedom

    assert noise(earlier("s0", identity)) == pytest.approx(0.3 * 20)
    assert noise(earlier("s0", "elsewhere")) == 0.0
    assert noise(earlier("s9", identity)) == 0.0
    shared = [point for series in ("s7", "s8", "s9") for point in earlier(series, identity)]
    assert noise(shared) == 4.0
    assert Machine().noise_of("s0", *launches_of((), ()))[SPEEDUP] == NOTHING_KNOWN
