"""Two sides are timed against each other on a clock that only engines move."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from pytest_quant.measure.interleave import Block, time_block
from pytest_quant.measure.pairs import CANDIDATE, MOST_VOID, PairedTimes, TimedPair, time_pair, time_pairs
from pytest_quant.spec import LatencyPlan
from pytest_quant.stats.means import PAIR_LOOKS
from tests.unit.measure.simulated import SimulatedTime

LIMIT = math.log(1.05)
PLAN = LatencyPlan(max_s=4.0)


@dataclass
class Process:
    """One side: the time of a run of each engine in milliseconds, and the blocks that were asked of it."""

    time: SimulatedTime
    run_ms: tuple[float, float, float]
    log: list[tuple[str, int]]
    name: str
    calls: list[Callable[[], None]] = field(init=False)

    def __post_init__(self) -> None:
        """Make the engines."""
        self.calls = [self.time.engine(run_ms) for run_ms in self.run_ms]

    def block(self, engine: int, runs: int) -> Block:
        """Time a block and note it."""
        self.log.append((self.name, engine))
        return time_block(self.calls[engine], runs, self.time.clock)


def pair_of(
    slowdown: float, *, launch_sd: float = 0.0, null: float = 1.0, reference: float = 1.0, seed: int = 0, **noise: float
) -> Callable[[int], TimedPair]:
    """Return what opens and times a pair: each process has its own speed, as processes do."""

    def pair(number: int) -> TimedPair:
        drawn = random.Random(1000 * seed + number)  # noqa: S311 - noise, not a secret
        time, log = SimulatedTime(drawn.randrange(2**31), **noise), list[tuple[str, int]]()
        base, head = (math.exp(drawn.gauss(0.0, launch_sd)) for _ in range(2))
        return time_pair(
            Process(time, (1.0, 1.0, 0.5 * base), log, "base").block,
            Process(time, (reference, reference * null, 0.5 * slowdown * head), log, "head").block,
            PLAN,
            seed=number,
            clock=time.clock,
        )

    return pair


def paired_times(slowdown: float, **world: float) -> PairedTimes:
    """Return the result for a head that takes `slowdown` times as long."""
    return time_pairs(pair_of(slowdown, **world), LIMIT, same_reference=True)  # type: ignore[arg-type]


def test_a_slow_down_above_the_limit_is_found_with_its_size() -> None:
    """On a machine whose speed drifts and that others use in bursts."""
    result = paired_times(1.08, launch_sd=0.005, noise=0.02, drift=0.002, bursts=0.001)
    assert (result.side, result.reason) == ("above", "")
    assert result.shift is not None
    assert result.shift.low <= math.log(1.08) <= result.shift.high
    assert result.pairs[0].head_ms / result.pairs[0].base_ms == pytest.approx(1.08, rel=0.02)


def test_the_same_code_on_both_sides_is_within_the_limit() -> None:
    """Five pairs suffice there."""
    result = paired_times(1.0, launch_sd=0.005, noise=0.02, drift=0.002)
    assert (result.side, len(result.pairs)) == ("within", PAIR_LOOKS[0])


def test_what_is_near_the_limit_takes_more_pairs_and_may_stay_open() -> None:
    """Neither FAIL nor PASS is guessed."""
    result = paired_times(1.05, launch_sd=0.01, noise=0.02)
    assert (result.side, len(result.pairs)) == ("open", PAIR_LOOKS[-1])
    assert "10 pairs" in result.reason


def test_a_pair_whose_null_is_off_does_not_count() -> None:
    """Another one takes its place; where all are so, nothing is told and the reason is."""
    good, bad = pair_of(1.0, noise=0.01), pair_of(1.0, null=1.1)
    once = time_pairs(lambda number: (bad if number == 2 else good)(number), LIMIT, same_reference=True)
    assert (once.side, len(once.pairs), len(once.voided)) == ("within", PAIR_LOOKS[0], 1)
    assert "head: the null is off" in once.voided[0].doubt
    never = time_pairs(bad, LIMIT, same_reference=True)
    assert (never.side, len(never.voided), never.pairs) == ("open", MOST_VOID + 1, ())
    assert "6 of 6 pairs of processes do not count: head: the null is off" in never.reason


def test_a_reference_that_moved_too_is_the_machine() -> None:
    """Where it is the same engine on both sides; a reference that was changed may move."""
    result = paired_times(1.08, reference=1.08)
    assert result.side == "open"
    assert "the machine, not the change: the same reference took 1.080 times" in result.reason
    changed = time_pairs(pair_of(1.08, reference=1.08), LIMIT, same_reference=False)
    assert changed.side == "above"


def test_blocks_of_both_sides_alternate_in_random_order_with_as_many_runs() -> None:
    """Each round has every engine of both sides once, and no two orders of many rounds are bound to be equal."""
    time, log = SimulatedTime(), list[tuple[str, int]]()
    base, head = Process(time, (1.0, 1.0, 0.5), log, "base"), Process(time, (1.0, 1.0, 0.5), log, "head")
    pair = time_pair(base.block, head.block, PLAN, seed=1, clock=time.clock)
    rounds = [tuple(log[start : start + 6]) for start in range(len(log) - 6 * pair.rounds, len(log), 6)]
    assert {frozenset(order) for order in rounds} == {frozenset((s, e) for s in ("base", "head") for e in range(3))}
    assert len(set(rounds)) > 10
    assert pair.rounds == PLAN.max_rounds


def test_a_slow_engine_gets_fewer_rounds_and_too_few_do_not_count() -> None:
    """The time of a pair is bounded; the reason says what would help."""
    time, log = SimulatedTime(), list[tuple[str, int]]()
    sides = [Process(time, (1000.0, 1000.0, 1000.0), log, name) for name in ("base", "head")]
    pair = time_pair(sides[0].block, sides[1].block, PLAN, seed=1, clock=time.clock)
    assert pair.rounds == 1
    assert "1 rounds within 4 s, and an interval needs 6" in pair.doubt


def test_the_clock_of_a_device_counts_where_every_block_has_it() -> None:
    """Its times are judged, not those of the host."""

    class OnDevice(Process):
        def block(self, engine: int, runs: int) -> Block:
            block = super().block(engine, runs)
            own = 2_000_000 if (self.name, engine) == ("head", CANDIDATE) else 1_000_000
            return replace(block, device_ns=(9_000_000, *[own] * runs))

    time, log = SimulatedTime(), list[tuple[str, int]]()
    sides = [OnDevice(time, (1.0, 1.0, 1.0), log, name) for name in ("base", "head")]
    pair = time_pair(sides[0].block, sides[1].block, PLAN, seed=1, clock=time.clock)
    assert pair.shift == pytest.approx(math.log(2.0))
    assert pair.head_ms == 2.0
