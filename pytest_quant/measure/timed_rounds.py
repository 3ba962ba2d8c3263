"""Latency of reference, an A/A null and the candidate, timed interleaved in one process. Measures, and never judges.

Each round times every engine once, in random order; the first run of a block is dropped; the statistic is the
median over rounds of the log ratio of block medians, judged by a group-sequential sign test. Timing the two engines one
after the other gives 10 to 33 % false alarms on a shared machine, interleaving them 0 to 3 %.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from pytest_quant.clocks import REAL
from pytest_quant.measure.interleave import (
    NS_PER_S,
    Block,
    Call,
    Clock,
    Rounds,
    Timer,
    rounds_of_tails,
    runs_of_block,
    time_block,
    warm_up,
)
from pytest_quant.measure.latency_figures import MachineState, disturbances_between, latency_figures, read_machine
from pytest_quant.result import LatencyResult
from pytest_quant.spec import LatencyPlan, Spread
from pytest_quant.stats.means import LAUNCH_LOOKS as LOOKS_AT_SETS
from pytest_quant.stats.means import median_with_error
from pytest_quant.stats.rounds import reach

Calls: TypeAlias = tuple[Call, Call, Call]
"""One run of the reference, of a second session of it, and of the candidate."""


@dataclass(frozen=True, slots=True)
class Reopening:
    """How to draw another set of sessions.

    Attributes
    ----------
    calls : closes the sessions that are open, and opens all three anew in random order.
    lasts_ns : nanoseconds that opening the first set took.
    weights_bytes : that a run reads; 0 where that is not from the processor's memory.
    """

    calls: Callable[[], Calls]
    lasts_ns: float
    weights_bytes: int = 0


_FROM_MEMORY = Spread(0.03, 4.0)
"""What sessions that wait for their weights differ by, where nothing else is known: 2 to 4 % were measured on pages of
2 MB, and up to 8 % on those of 4 KB."""


def measure(
    calls: Calls,
    plan: LatencyPlan,
    *,
    clock: Clock = REAL.perf_counter_ns,
    machine: Callable[[], MachineState] = read_machine,
    observe: Callable[[], object] = lambda: None,
    reopening: Reopening | None = None,
) -> LatencyResult:
    """Time the three calls in rounds until every limit of `plan` is decided or its budget is spent.

    Warming up is part of the budget. No round is begun that would last longer than what is left of it; where not even
    one fits, the result is made of the first run of each engine, with a reason that these are too few.

    Parameters
    ----------
    calls : one run each of the reference, of a second session of it, whose difference is noise, and of the candidate.
        Where all three are `ByDevice` their own times are judged; budgets and the lengths of blocks go by the host's
        clock in any case.
    plan : budgets, limits to decide and the seed of the order.
    clock : nanoseconds.
    machine : reads the counters of other load on the machine.
    observe : called when warming up is over and after each round, at most `plan.max_rounds` + 1 times, but where a
        limit on a tail takes more rounds, and never within a timed run; what it takes is part of the budget.
    reopening : gives further sets of sessions, where a limit is in doubt because sessions differ by more than rounds
        do; what they take is part of the budget. ``None`` leaves it at these.
    """
    before, started = machine(), clock()
    timers = _timers(calls, clock, plan)
    of_warming_up = _random_order(plan).sample(range(len(timers)), len(timers))
    by_index = {index: warm_up(timers[index], plan, clock) for index in of_warming_up}
    firsts, run_ns = zip(*(by_index[index] for index in sorted(by_index)), strict=True)
    observe()
    # Whether runs wait for their weights most of the time, so that their places matter. The cache next to a core holds
    # 0.25 to 3 MB; 5 bytes in a nanosecond are half of what one core gets from the memory, or the cache that all share,
    # of servers of the last ten years.
    weights_bytes = 0 if reopening is None else reopening.weights_bytes
    waits = weights_bytes > max(4_000_000, 5.0 * min(run_ns[:2]))
    if not has_limit(plan) or rounds_of_tails(plan):
        reopening = None  # a tail is that of one set's many rounds
    in_sets = reopening if waits else None
    if in_sets is not None:
        plan = _plan_for_memory(plan)
    until = started + int(plan.max_s * NS_PER_S)
    left_s = max(until - clock(), 0) / NS_PER_S
    of_tails = rounds_of_tails(plan, beyond=0)
    if _round_ns([1] * len(timers), run_ns, plan) * of_tails > left_s * NS_PER_S:
        of_tails = 0  # no number of rounds that fit bounds the tail: the other figures are worth the time
    most = max(plan.max_rounds, rounds_of_tails(plan) if of_tails else 0)
    runs = [runs_of_block(of_engine, plan, left_s, of_tails) for of_engine in run_ns]
    if waits:
        # From run to run of a block more of the weights lie in the cache that the last engine had filled.
        runs = [min(runs)] * len(runs)
        block_s = left_s / (len(timers) * max(of_tails, 5 * plan.min_rounds))
        # After a switch runs become faster for eight to ten of a millisecond: what the engine before read leaves the
        # cache that all share by and by. In a program of one engine it never comes there.
        plan = replace(plan, refill_s=min(0.01, 0.25 * block_s))
        timers = _timers(calls, clock, plan)
    if _round_ns(runs, run_ns, plan) * plan.min_rounds > left_s * NS_PER_S:
        # One engine is too slow for its share of the time: more rounds are worth more than more runs of the others.
        runs = [1] * len(runs)
    if _round_ns(runs, run_ns, plan) <= until - clock():
        rounds = Rounds(timers, runs, until, _random_order(plan), clock, observe)
        rounds_ns = 2 * plan.min_rounds * _round_ns(runs, run_ns, plan)
        if in_sets is not None and rounds.fits(in_sets.lasts_ns + rounds_ns):
            result = _time_sets(rounds, plan, in_sets, [])
        else:
            result = _time_rounds(rounds, plan, most, reopening)
    else:
        result = latency_figures([[Block(cold.cold_ns, (cold.cold_ns,), 2 * cold.device_ns)] for cold in firsts], plan)
    spent_s = (clock() - started) / NS_PER_S
    disturbed = disturbances_between(before, machine())
    notes = (*result.notes, *(f"{kind}: {text}" for kind, text in disturbed.items()))
    return replace(result, spent_s=spent_s, notes=notes, disturbances=tuple(disturbed))


def _random_order(plan: LatencyPlan) -> random.Random:
    return random.Random(plan.seed)  # nosec B311 # noqa: S311 - an order, not a secret


def _round_ns(runs: Sequence[int], run_ns: Sequence[float], plan: LatencyPlan) -> float:
    """Return the nanoseconds of one round, the cold run of each block and those that refill the caches included."""
    refill_ns = plan.refill_s * NS_PER_S
    return sum(n * of_engine + max(of_engine, refill_ns) for n, of_engine in zip(runs, run_ns, strict=True))


def _plan_for_memory(plan: LatencyPlan) -> LatencyPlan:
    """Return the plan for engines that wait for their weights: short blocks, and sessions of which little is known."""
    return replace(
        plan,
        min_runs=1,
        # What neighbours take of the memory changes within tenths of a second, so that blocks are short and many.
        max_rounds=max(plan.max_rounds, 400),
        sessions=replace(_FROM_MEMORY, sd=max(plan.sessions.sd, _FROM_MEMORY.sd)),
    )


def has_limit(plan: LatencyPlan) -> bool:
    """Whether there is a limit to decide."""
    return plan.least_speedup is not None or bool(plan.most_ms) or bool(plan.most_tokens_ms)


def _timers(calls: Calls, clock: Clock, plan: LatencyPlan) -> list[Timer]:
    return [partial(time_block, call, clock=clock, refill_s=plan.refill_s) for call in calls]


def _time_rounds(rounds: Rounds, plan: LatencyPlan, most: int, reopening: Reopening | None) -> LatencyResult:
    """Add rounds until every limit is decided, there are `most`, or another round would not be over in time.

    The sign test takes rounds of any precision: blocks become shorter where load that came after warming up leaves too
    little time for the fewest rounds, and longer after a look that leaves a limit open. Where sessions leave it open
    further sets of them are drawn.
    """
    while True:
        rounds.add()
        round_ns, rounds_made = rounds.next_ns(plan.min_rounds), rounds.count
        spent = rounds_made >= most or not rounds.fits(round_ns)
        if not spent and (rounds_made < plan.min_rounds or (rounds_made - plan.min_rounds) % plan.look_every):
            continue
        result = latency_figures(rounds.blocks, plan)
        decided = _is_decided(result, plan)
        # Whether the noise between sessions widens the interval of the speedup by more than that of the rounds.
        half_width = math.log(result.speedup_ci.high / result.speedup_ci.low) / 2.0
        in_doubt = not decided and math.sqrt(2.0) * reach(plan.confidence) * result.session_sd > half_width
        if in_doubt and reopening is not None and rounds.fits(reopening.lasts_ns + plan.min_rounds * round_ns):
            return _time_sets(rounds, plan, reopening, [rounds_made])
        if spent or decided:
            return result
        if has_limit(plan):
            rounds.lengthen(most - rounds_made, round_ns)


def _time_sets(rounds: Rounds, plan: LatencyPlan, reopening: Reopening, sets: list[int]) -> LatencyResult:
    """Time sets of sessions, until every limit is decided at a look or there is no time for one more.

    Parameters
    ----------
    sets : rounds of those that are timed; without any the sessions that are open are the first.
    """
    opening_ns = reopening.lasts_ns
    while not sets or (len(sets) < LOOKS_AT_SETS[-1] and rounds.fits(opening_ns + plan.min_rounds * rounds.last_ns)):
        if sets:
            began = rounds.clock()
            rounds.timers = _timers(reopening.calls(), rounds.clock, plan)
            for index in rounds.draw_order():
                rounds.timers[index](rounds.runs[index])
            opening_ns = rounds.clock() - began
        # Time for three sets is kept from the first one on.
        later = max(3 - len(sets) - 1, 0)
        left_ns = (rounds.until - rounds.clock() - later * opening_ns) / (later + 1)
        # The rounds of a set take at most three times as long as opening it.
        sets.append(_add_set(rounds, plan, min(3.0 * opening_ns, left_ns)))
        if len(sets) in LOOKS_AT_SETS:
            result = latency_figures(rounds.blocks, plan, sets)
            if _is_decided(result, plan):
                return result
    return latency_figures(rounds.blocks, plan, sets if len(sets) > 1 else ())


def _add_set(rounds: Rounds, plan: LatencyPlan, most_ns: float) -> int:
    """Add the fewest rounds, and more until their error is small beside the noise between sessions or the time is over.

    Returns how many.
    """
    began, logs = rounds.clock(), list[float]()
    while len(logs) < plan.min_rounds or (
        len(logs) < plan.max_rounds
        and rounds.clock() - began + rounds.last_ns < most_ns
        # With half the noise between sessions another set says more than further rounds.
        and median_with_error(logs).error > 0.5 * plan.sessions.sd
    ):
        rounds.add()
        reference, null, candidate = (math.log(statistics.median(side[-1].runs_ns)) for side in rounds.blocks)
        logs.append((reference + null) / 2.0 - candidate)
    return len(logs)


def _is_decided(result: LatencyResult, plan: LatencyPlan) -> bool:
    """Whether each limit is outside of its figure's interval; without limits, whether the speedup is precise enough.

    It is when its interval is narrow, or when more rounds would hardly narrow it: most of it is noise between sessions.
    That a percentile is within its limit is looked at once, when all its rounds are there.
    """
    if result.reasons:
        return False
    if not has_limit(plan):
        sessions_pct = 100.0 * reach(plan.confidence) * result.session_sd
        # Without any noise of rounds the half-width would be four fifths of what it is.
        return result.half_width_pct <= max(100.0 * plan.precision, 1.25 * sessions_pct)
    if plan.least_speedup is not None and result.speedup_ci.low < plan.least_speedup <= result.speedup_ci.high:
        return False
    for name, allowed in plan.most_tokens_ms:
        token = result.token_time(name)
        span = None if token is None else token.candidate_ci_ms
        if span is not None and span.low <= allowed < span.high:
            return False
    bounds = {bound.percentile: (bound.low_ms, bound.high_ms) for bound in result.percentile_bounds}
    for percentile, allowed in plan.most_ms:
        low, high = bounds[percentile]
        waits = percentile != 50.0 and len(result.candidate.runs_ns) < rounds_of_tails(plan)
        below, above = high is not None and high <= allowed and not waits, low is not None and low > allowed
        if not (below or above):
            return False
    return True
