"""Blocks of runs of one engine, warming up, and rounds in which every engine is timed once, in random order.

A check times three engines of one process so, and two commits six engines of two processes.
"""

from __future__ import annotations

import gc
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from pytest_quant.clocks import REAL
from pytest_quant.errors import QuantError
from pytest_quant.spec import LatencyPlan
from pytest_quant.stats.ratio import runs_needed

Call = Callable[[], object]
"""One run of an engine, synchronized before it returns."""

Clock = Callable[[], int]
"""Nanoseconds from any start, never going back."""


NS_PER_MS = 1e6
NS_PER_S = 1e9


class ByDevice:
    """A call that returns how long it took by the clock of its device; that time is judged.

    Parameters
    ----------
    call : two runs of an engine in a row, synchronized before it returns the milliseconds of the second.
    """

    def __init__(self, call: Callable[[], float]) -> None:
        self._call = call
        self.last_ns = 0

    def __call__(self) -> None:
        """Run twice; `last_ns` is what the second run took."""
        self.last_ns = round(self._call() * NS_PER_MS)


class ByToken:
    """A call that also returns when the tokens of its run came.

    Parameters
    ----------
    call : one run of an engine, which returns the nanoseconds from its start to each token.
    """

    def __init__(self, call: Callable[[], Sequence[int]]) -> None:
        self._call = call
        self.last_ns = (math.nan, math.nan)

    def __call__(self) -> None:
        """Run once; `last_ns` is the time to the first token, and the time per token after it, NaN without any."""
        came_ns = self._call()
        after = len(came_ns) - 1
        self.last_ns = (
            max(came_ns[0], 1.0) if came_ns else math.nan,
            max((came_ns[-1] - came_ns[0]) / after, 1.0) if after > 0 else math.nan,
        )


@dataclass(frozen=True, slots=True)
class Block:
    """Runs of one engine in a row, in nanoseconds.

    Attributes
    ----------
    cold_ns : the first run after a switch, which is slower for INT8 than for FP32 and kept apart.
    runs_ns : the others, by the host's clock; where the device has one, with the run that it times behind each.
    device_ns : all of them, the cold one first, by the device's; empty where it has none.
    tokens_ns : of each of `runs_ns` what `ByToken` tells; empty for engines without tokens.
    """

    cold_ns: int
    runs_ns: tuple[int, ...]
    device_ns: tuple[int, ...] = ()
    tokens_ns: tuple[tuple[float, float], ...] = ()

    @property
    def host_ns(self) -> tuple[int, ...]:
        """The runs by the host's clock alone, without those that the device timed."""
        if not self.device_ns:
            return self.runs_ns
        return tuple(max(run - own, 1) for run, own in zip(self.runs_ns, self.device_ns[1:], strict=True))


def time_block(call: Call, runs: int, clock: Clock, refill_s: float = 0.0) -> Block:
    """Time one block: a cold run and `runs` more.

    Parameters
    ----------
    call : one run of an engine.
    runs : timed after the cold one, 0 or more.
    clock : nanoseconds.
    refill_s : seconds from the start in which runs are not counted; the cold one is kept apart all the same.

    Raises
    ------
    QuantError : most runs take no time by the host's clock or by the device's.
    """
    with _quiet():
        times, by_device, by_token = [], [], []
        for _ in range(runs + 1):
            started = clock()
            call()
            times.append(clock() - started)
            if isinstance(call, ByDevice):
                by_device.append(call.last_ns)
            elif isinstance(call, ByToken):
                by_token.append(call.last_ns)
            while len(times) == 1 and clock() < started + refill_s * NS_PER_S:
                call()
    cold, *others = _require_nonzero(times, "host")
    return Block(cold, tuple(others), _require_nonzero(by_device, "device"), tuple(by_token[1:]))


def _require_nonzero(times: Sequence[int], whose: str) -> tuple[int, ...]:
    """Return times of 1 ns at least, for a ratio needs a time. Raises `QuantError` if most of the times are 0."""
    if times and statistics.median(times) <= 0:
        raise QuantError(
            f"the clock of the {whose} stands still, or its steps are longer than a run",
            value=f"{sum(time <= 0 for time in times)} of {len(times)} runs took 0 ns",
            fix="run the tests without what holds the time of the whole process, as libfaketime does; for runs that "
            "are shorter than the steps of the clock: a larger batch_size",
        )
    return tuple(max(time, 1) for time in times)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep garbage collection, tracers and profilers out of a block; they are back when it ends."""
    collecting, trace, profile = gc.isenabled(), sys.gettrace(), sys.getprofile()
    gc.disable()
    sys.settrace(None)
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(profile)
        sys.settrace(trace)
        if collecting:
            gc.enable()


_MAX_RUNS = 1000


Timer: TypeAlias = Callable[[int], Block]
"""Times a block of one engine: a cold run, and as many more as it is given."""


def warm_up(timer: Timer, plan: LatencyPlan, clock: Clock, share: float = 1.0) -> tuple[Block, float]:
    """Run an engine until two blocks in a row are not 3 % faster than all before, or its time is over.

    Times that scatter are not what warming up is for: it ends as they stop falling. One run is made in any case; after
    it no block is begun that would last longer than the time that is left.
    An engine that never settles is timed all the same: interleaving exposes every engine to the same conditions.

    Parameters
    ----------
    timer : of the engine.
    plan : its times and runs of a block.
    clock : nanoseconds.
    share : of the time for it that it may take: `max_warmup_s`, or a tenth of `max_s` where that is less.

    Returns
    -------
    Its very first run, a block with a cold run only, and nanoseconds of the last block's median run; of the first run
    where there was no time for a block.
    """
    until = clock() + share * min(plan.max_warmup_s, 0.1 * plan.max_s) * NS_PER_S
    first = timer(0)
    medians = [float(first.cold_ns)]
    while (runs := min(_runs(medians[-1], plan), int((until - clock()) / medians[-1]) - 1)) >= 1:
        medians.append(statistics.median(timer(runs).runs_ns))
        if len(medians) > 3 and min(medians[-2:]) >= 0.97 * min(medians[1:-2]):
            break
    return first, medians[-1]


def runs_of_block(run_ns: float, plan: LatencyPlan, left_s: float, rounds: int = 0) -> int:
    """Return the number of runs of a block, at least 1.

    They last `plan.min_block_s` and are at least `plan.min_runs`; but fewer where twice the smallest number of rounds
    would not fit into `left_s` otherwise, since many short blocks are more precise than few long ones, and where
    `rounds` would not.

    Parameters
    ----------
    run_ns : nanoseconds of one run.
    plan : bounds on rounds, runs and times.
    left_s : seconds for all rounds of the three engines.
    rounds : that must fit, as far as they do with one run in each block; 0 for no such number.
    """
    share = left_s * NS_PER_S / 3 / max(run_ns, 1.0)
    # Load may halve the speed.
    runs = min(_runs(run_ns, plan), int(share / (2.0 * plan.min_rounds)) - 1)
    if rounds:
        runs = min(runs, int(share / rounds) - 1)
    return max(1, runs)


def rounds_of_tails(plan: LatencyPlan, beyond: int = 1) -> int:
    """Return how many rounds bound every percentile with a limit, but the median, from above; 0 without such limits.

    Runs of one block may share one burst, so that a round is worth one run; `beyond` of the rounds may be freaks.
    """
    tails = [percentile for percentile, _ in plan.most_ms if percentile != 50.0]
    return max((runs_needed(tail, plan.confidence, beyond) for tail in tails), default=0)


def _runs(run_ns: float, plan: LatencyPlan) -> int:
    enough = math.ceil(plan.min_block_s * NS_PER_S / max(run_ns, 1.0))
    return min(max(enough, plan.min_runs), _MAX_RUNS)


@dataclass(eq=False)
class Rounds:
    """Rounds of several engines, in random order, that are added one by one until the time is over.

    Parameters
    ----------
    timers : one for each engine; may be replaced between rounds.
    runs : of the blocks of each engine.
    until : of the clock.
    order : draws the order of each round.
    clock : nanoseconds.
    observe : called after each round.

    Attributes
    ----------
    blocks : those of each engine, one for each round.
    last_ns : that the last round took, with observing.
    """

    timers: Sequence[Timer]
    runs: Sequence[int]
    until: float
    order: random.Random
    clock: Clock = REAL.perf_counter_ns
    observe: Callable[[], object] = lambda: None
    last_ns: int = 0

    def __post_init__(self) -> None:
        self.blocks: tuple[list[Block], ...] = tuple([] for _ in self.timers)

    @property
    def count(self) -> int:
        """How many rounds there are."""
        return len(self.blocks[0])

    def draw_order(self) -> list[int]:
        """Draw an order of the engines."""
        return self.order.sample(range(len(self.timers)), len(self.timers))

    def add(self) -> None:
        """Time every engine once."""
        began = self.clock()
        for index in self.draw_order():
            self.blocks[index].append(self.timers[index](self.runs[index]))
        self.observe()
        self.last_ns = self.clock() - began

    def fits(self, took_ns: float) -> bool:
        """Whether something that takes so long would be over in time."""
        return self.clock() + took_ns <= self.until

    def next_ns(self, fewest: int) -> float:
        """Return the nanoseconds of one more round, whose blocks are shortened if `fewest` would not fit otherwise.

        One run for each block is the least, and as many as in the last round the most.
        """
        if self.count >= fewest:
            return self.last_ns
        last = [blocks[-1] for blocks in self.blocks]
        timed_ns = max(sum(sum(block.runs_ns) for block in last), 1)
        other_ns = max(self.last_ns - timed_ns, 0)
        left_ns = self.until - self.clock()
        share = (left_ns / (fewest - self.count) - other_ns) / timed_ns
        if share >= 1.0:
            return self.last_ns
        self.runs = [max(1, int(share * runs)) for runs in self.runs]
        return other_ns + sum(statistics.mean(block.runs_ns) * n for block, n in zip(last, self.runs, strict=True))

    def lengthen(self, rounds: int, round_ns: float) -> None:
        """Make twice as many runs of each block if so many rounds of them fit into the time that is left."""
        if 2 * rounds * round_ns <= self.until - self.clock():
            self.runs = [min(2 * runs, _MAX_RUNS) for runs in self.runs]
