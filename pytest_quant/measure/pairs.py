"""Two sides timed against each other: pairs of fresh processes whose blocks alternate in random order.

Code and libraries of two commits do not fit into one process. Each pair opens one process per side; in every round each
engine of both sides runs one block, in random order, so that what the machine does meanwhile meets all of them alike
(Duet benchmarking, Bulej et al. 2020, ICPE; randomized interleaved trials, Abedi and Brecht 2017, ICPE). One pair is
one number. What differs from process to process shows between pairs, see `pytest_quant.stats.means`.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from pytest_quant.clocks import REAL
from pytest_quant.measure.interleave import NS_PER_MS, NS_PER_S, Block, Clock, Rounds, runs_of_block, warm_up
from pytest_quant.measure.latency_figures import NULL_TOLERANCE, choose_blocks, null_reasons
from pytest_quant.result import Interval
from pytest_quant.spec import LatencyPlan
from pytest_quant.stats.means import PAIR_LOOKS, mean_of_pairs
from pytest_quant.stats.ratio import Estimate, fewest_rounds, percentile_bounds

REFERENCE, NULL, CANDIDATE = range(3)
"""The engines of a side, by their number."""

MOST_VOID = 5
"""Pairs that may be thrown away because a null is off; with more the machine is too restless to tell anything."""

TimesBlock: TypeAlias = Callable[[int, int], Block]
"""Times a cold run and so many more of one engine, by its number; see `TimingProcess.block`."""

LimitSide: TypeAlias = Literal["above", "within", "open"]
"""Of a limit: the shift lies above it, within it, or cannot be told; each wrong answer has a level of 2.5 %."""


@dataclass(frozen=True, slots=True)
class TimedPair:
    """One process per side, timed against each other.

    Attributes
    ----------
    shift, reference_shift : median over rounds of the natural logarithm of head / base, of candidates and references.
    base_ms, head_ms : median milliseconds of a run of each candidate.
    rounds : number of rounds.
    doubt : why the pair does not count; empty when it does.
    """

    shift: float
    reference_shift: float
    base_ms: float
    head_ms: float
    rounds: int
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """The candidate of the head against the candidate of the base.

    Attributes
    ----------
    pairs, voided : the pairs that count, and those whose null was off.
    limit : in natural logarithm units, as the shifts.
    shift, reference_shift : over the pairs that count; ``None`` with fewer than the first look needs.
    side : where the shift lies of the limit.
    reason : why that cannot be told; empty when it can.
    """

    pairs: tuple[TimedPair, ...]
    voided: tuple[TimedPair, ...]
    limit: float
    shift: Estimate | None
    reference_shift: Estimate | None
    side: LimitSide
    reason: str = ""


def time_pairs(one_pair: Callable[[int], TimedPair], limit: float, *, same_reference: bool) -> PairedTimes:
    """Time pairs until the shift lies clearly on one side of `limit`, or there are as many as may be looked at.

    Parameters
    ----------
    one_pair : opens, times and closes a pair; it is given a number that seeds the order.
    limit : natural logarithm of the largest ratio head / base that is allowed.
    same_reference : both sides have the same reference, whose shift is then none of the change that is looked for.
    """
    counted: list[TimedPair] = []
    voided: list[TimedPair] = []
    while len(counted) < PAIR_LOOKS[-1] and len(voided) <= MOST_VOID:
        pair = one_pair(len(counted) + len(voided))
        (voided if pair.doubt else counted).append(pair)
        is_look = not pair.doubt and len(counted) == PAIR_LOOKS[0]
        if is_look and _judge_pairs(counted, voided, limit, same_reference).side != "open":
            break
    return _judge_pairs(counted, voided, limit, same_reference)


def _judge_pairs(
    pairs: Sequence[TimedPair], voided: Sequence[TimedPair], limit: float, same_reference: bool
) -> PairedTimes:
    shift = reference = None
    side: LimitSide = "open"
    reason = f"only {len(pairs)} pairs of processes"
    if len(pairs) >= PAIR_LOOKS[0]:
        shift = mean_of_pairs([pair.shift for pair in pairs])
        reference = mean_of_pairs([pair.reference_shift for pair in pairs])
        tolerance = math.log(NULL_TOLERANCE)
        if same_reference and (reference.low > tolerance or reference.high < -tolerance):
            reason = (
                f"the machine, not the change: the same reference took {math.exp(reference.value):.3f} times as long "
                "in the processes of the head"
            )
        else:
            side = "above" if shift.low > limit else "within" if shift.high <= limit else "open"
            cannot = f"{len(pairs)} pairs of processes cannot decide on which side of the limit it is"
            reason = cannot if side == "open" else ""
    if len(voided) > MOST_VOID:
        side = "open"
        reason = f"{len(voided)} of {len(voided) + len(pairs)} pairs of processes do not count: {voided[-1].doubt}"
    return PairedTimes(tuple(pairs), tuple(voided), limit, shift, reference, side, reason)


def time_pair(
    base: TimesBlock, head: TimesBlock, plan: LatencyPlan, *, seed: int, clock: Clock = REAL.perf_counter_ns
) -> TimedPair:
    """Time the engines of both sides in rounds, in random order, within `plan.max_s` seconds.

    Parameters
    ----------
    base, head : what times a block in the two processes.
    plan : bounds on rounds, runs and times; of one side alone where it names engines.
    seed : of the order.
    clock : nanoseconds; the times that count are those that the processes measure themselves.
    """
    until = clock() + plan.max_s * NS_PER_S
    timers = [partial(side, engine) for side in (base, head) for engine in (REFERENCE, NULL, CANDIDATE)]
    run_ns = [warm_up(timer, plan, clock, 0.5)[1] for timer in timers]
    left_s = max(until - clock(), 0.0) / NS_PER_S
    # Of both sides as many, so that a block means the same on both.
    runs = [runs_of_block(of_engine, plan, left_s / 2) for of_engine in map(max, run_ns[:3], run_ns[3:])] * 2
    order = random.Random(seed)  # nosec B311 # noqa: S311 - an order, not a secret
    rounds = Rounds(timers, runs, until, order, clock)
    while rounds.count < plan.max_rounds:
        rounds.add()
        if not rounds.fits(rounds.next_ns(plan.min_rounds)):
            break
    by_device = all(block.device_ns for of_engine in rounds.blocks for block in of_engine)
    medians = [choose_blocks(of_engine, by_device).medians_ns for of_engine in rounds.blocks]
    was, now = medians[:3], medians[3:]
    return TimedPair(
        shift=_log_ratio(now[CANDIDATE], was[CANDIDATE]),
        reference_shift=_log_ratio(now[REFERENCE], was[REFERENCE]),
        base_ms=statistics.median(was[CANDIDATE]) / NS_PER_MS,
        head_ms=statistics.median(now[CANDIDATE]) / NS_PER_MS,
        rounds=rounds.count,
        doubt=_doubt({"base": was, "head": now}, rounds.count, plan),
    )


def _doubt(medians: dict[str, list[tuple[float, ...]]], rounds: int, plan: LatencyPlan) -> str:
    fewest = fewest_rounds(plan.confidence)
    if rounds < fewest:
        return f"{rounds} rounds within {plan.max_s:.3g} s, and an interval needs {fewest}"
    for name, side in medians.items():
        ratios = [null / ours for null, ours in zip(side[NULL], side[REFERENCE], strict=True)]
        low, high = percentile_bounds(ratios, 50.0, confidence=(1.0 + plan.confidence) / 2.0)
        for reason in null_reasons(Interval(low or 0.0, high or math.inf)):
            return f"{name}: {reason}"
    return ""


def _log_ratio(head: Sequence[float], base: Sequence[float]) -> float:
    return statistics.median(math.log(ours / theirs) for ours, theirs in zip(head, base, strict=True))
