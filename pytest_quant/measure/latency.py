"""Latency of reference, an A/A null and the candidate, timed interleaved in one process. Measures, and never judges.

Each round times every engine once, in random order; the first run of a block is dropped; the statistic is the
median over rounds of the log ratio of block medians, judged by a group-sequential sign test. Timing the two engines one
after the other gives 10 to 33 % false alarms on a shared machine, interleaving them 0 to 3 %.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from pytest_quant.measure.block import NS_PER_MS, Block, Call, Clock, time_block
from pytest_quant.measure.noise import (
    MachineState,
    budget_reasons,
    machine_notes,
    noise_notes,
    null_reasons,
    read_machine,
    widening,
)
from pytest_quant.result import Blocks, Interval, LatencyResult
from pytest_quant.spec import LatencyPlan
from pytest_quant.stats.ratio import percentile_bounds, runs_needed
from pytest_quant.stats.rounds import Judged, SessionNoise, judge_ratio, judge_rounds, reach
from pytest_quant.stats.sequential import Looks

_AGREE = 0.03
_BLOCKS = 3
_MAX_RUNS = 1000
_ENGINES = 3
_WARMUP_SHARE = 0.1
_SLACK = 2.0
"""Blocks are sized so that the budget is this many times what the fewest rounds need: load may halve the speed."""
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Warm:
    """An engine after warming up.

    Attributes
    ----------
    first_ns : nanoseconds of its very first run.
    run_ns : of the last block's median run; of the first run where there was no time for a block.
    settled : whether the times had settled.
    """

    first_ns: int
    run_ns: float
    settled: bool


def warm_up(call: Call, plan: LatencyPlan, clock: Clock) -> Warm:
    """Run an engine until the last three block medians agree within 3 %, or `warmup_s` of the plan are over.

    One run is made in any case; after it no block is begun that would last longer than the time that is left.
    An engine that never settles is timed all the same: interleaving exposes every engine to the same conditions.

    Parameters
    ----------
    call : one run of the engine.
    plan : its times and runs of a block.
    clock : nanoseconds.
    """
    until = clock() + warmup_s(plan) * _NS_PER_S
    first_ns = time_block(call, 0, clock).cold_ns
    medians = [float(first_ns)]
    while (runs := min(_runs(medians[-1], plan), int((until - clock()) / medians[-1]) - 1)) >= 1:
        medians.append(statistics.median(time_block(call, runs, clock).runs_ns))
        last = medians[-_BLOCKS:]
        if len(medians) > _BLOCKS and max(last) <= (1.0 + _AGREE) * min(last):
            return Warm(first_ns, medians[-1], settled=True)
    return Warm(first_ns, medians[-1], settled=False)


def warmup_s(plan: LatencyPlan) -> float:
    """Return the seconds to warm up one of the three engines: `plan.max_warmup_s`, at most a tenth of `plan.max_s`."""
    return min(plan.max_warmup_s, _WARMUP_SHARE * plan.max_s)


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
    share = left_s * _NS_PER_S / _ENGINES / max(run_ns, 1.0)
    runs = min(_runs(run_ns, plan), int(share / (_SLACK * plan.min_rounds)) - 1)
    if rounds:
        runs = min(runs, int(share / rounds) - 1)
    return max(1, runs)


def _rounds_of_tails(plan: LatencyPlan, beyond: int = 1) -> int:
    """Return how many rounds bound every percentile with a limit, but the median, from above; 0 without such limits.

    Runs of one block may share one burst, so that a round is worth one run; `beyond` of the rounds may be freaks.
    """
    tails = [percentile for percentile, _ in plan.max_latency_ms if percentile != 50.0]
    return max((runs_needed(one, plan.confidence, beyond) for one in tails), default=0)


def _runs(run_ns: float, plan: LatencyPlan) -> int:
    enough = math.ceil(plan.min_block_s * _NS_PER_S / max(run_ns, 1.0))
    return min(max(enough, plan.min_runs), _MAX_RUNS)


_STATED_PERCENTILES = (90.0, 99.0)


def latency_figures(
    reference: Sequence[Block], null: Sequence[Block], candidate: Sequence[Block], plan: LatencyPlan
) -> LatencyResult:
    """Compute every figure from the same rounds of the three engines, by the device's clock where each of them has one.

    Parameters
    ----------
    reference, null, candidate : one block for each round.
    plan : looks, confidence of the intervals, noise between sessions, and the percentiles to bound.
    """
    by_device = all(block.device_ns for block in chain(reference, null, candidate))
    sides = ref, nul, cand = [_judged(side, by_device) for side in (reference, null, candidate)]
    looks = looks_of(plan)
    rounds = min(len(ref.runs_ns), looks.most)  # those after them are for the tails only
    ref_ns, null_ns, cand_ns = (side.medians_ns[:rounds] for side in sides)
    ref_logs, null_logs, cand_logs = np.log(ref_ns), np.log(null_ns), np.log(cand_ns)
    ratio, of_null = judge_ratio(
        ref_logs, null_logs, cand_logs, looks, SessionNoise(plan.session_sd, plan.session_freedom)
    )
    p50 = judge_rounds(cand_logs, (cand_logs,), looks, ratio.session_sd)
    p50_ms = _interval(p50, 1.0 / NS_PER_MS)
    runs_ms = [run / NS_PER_MS for run in chain.from_iterable(cand.runs_ns)]
    bounds: dict[float, tuple[float | None, float | None]] = {50.0: (p50_ms.low, p50_ms.high)}
    for percentile in {*_STATED_PERCENTILES, *(asked for asked, _ in plan.max_latency_ms)} - {50.0}:
        blocks = len(cand.runs_ns)
        bounds[percentile] = percentile_bounds(runs_ms, percentile, confidence=plan.confidence, clusters=blocks)
    speedup, speedup_ci, null_ratio_ci = _value(ratio), _interval(ratio), _interval(of_null)
    result = LatencyResult(
        batch_size=plan.batch_size,
        rounds=rounds,
        reference=ref,
        null=nul,
        candidate=cand,
        reference_p50_ms=statistics.median(ref_ns) / NS_PER_MS,
        candidate_p50_ms=statistics.median(cand_ns) / NS_PER_MS,
        candidate_p90_ms=_stated(runs_ms, 90, plan),
        candidate_p99_ms=_stated(runs_ms, 99, plan),
        percentile_bounds_ms=tuple((percentile, *bounds[percentile]) for percentile in sorted(bounds)),
        speedup=speedup,
        speedup_ci=speedup_ci,
        null_ratio_ci=null_ratio_ci,
        half_width_pct=50.0 * (speedup_ci.high - speedup_ci.low) / speedup,
        reasons=(*null_reasons(null_ratio_ci, plan.session_sd), *budget_reasons(rounds, plan)),
        notes=noise_notes(cand_ns, ref_ns, ratio),
        confidence=plan.confidence,
        looks=len(looks.until(rounds)),
        session_sd=float(ratio.session_sd.item()),
        effective_rounds=float(ratio.effective_rounds.item()),
        widened=widening(ratio, rounds, plan),
    )
    return _with_host(result, reference, null, candidate, plan) if by_device else result


def looks_of(plan: LatencyPlan) -> Looks:
    """Return the looks of a measurement; before the last one rounds are added, whatever the ratio is."""
    return Looks(plan.min_rounds, plan.look_every, max(plan.max_rounds, plan.min_rounds), plan.confidence)


def _value(judged: Judged) -> float:
    return float(np.exp(judged.span.value).item())


def _interval(judged: Judged, unit: float = 1.0) -> Interval:
    return Interval(*(float(np.exp(end).item()) * unit for end in (judged.span.low, judged.span.high)))


def _with_host(
    result: LatencyResult,
    reference: Sequence[Block],
    null: Sequence[Block],
    candidate: Sequence[Block],
    plan: LatencyPlan,
) -> LatencyResult:
    """Add what the same runs took by the host's clock, and a note where that turns the comparison round."""
    looks = looks_of(plan)
    sides = (_judged(side, by_device=False).medians_ns for side in (reference, null, candidate))
    ref_ns, null_ns, cand_ns = (medians[: looks.most] for medians in sides)
    known = SessionNoise(plan.session_sd, plan.session_freedom)
    found, _ = judge_ratio(np.log(ref_ns), np.log(null_ns), np.log(cand_ns), looks, known)
    by_host, notes = _interval(found), result.notes
    if (by_host.high < 1.0 < result.speedup_ci.low) or (result.speedup_ci.high < 1.0 < by_host.low):
        words = ("faster", "slower") if result.speedup > 1.0 else ("slower", "faster")
        notes = (
            *notes,
            f"clocks disagree: the candidate is {words[0]} by the device's (x{result.speedup:.3f}) and {words[1]} "
            f"by the host's (x{_value(found):.3f}), which counts what the host does for a run",
        )
    return replace(
        result,
        clock="device",
        host_reference_p50_ms=statistics.median(ref_ns) / NS_PER_MS,
        host_candidate_p50_ms=statistics.median(cand_ns) / NS_PER_MS,
        host_speedup=_value(found),
        notes=notes,
    )


def _stated(runs_ms: Sequence[float], percentile: int, plan: LatencyPlan) -> float | None:
    """Return a percentile in ms, ``None`` when as many independent runs would not bound it from above."""
    if len(runs_ms) < runs_needed(percentile, plan.confidence):
        return None
    return statistics.quantiles(runs_ms, n=100, method="inclusive")[percentile - 1]


def _judged(blocks: Sequence[Block], by_device: bool) -> Blocks:
    if by_device:
        return Blocks(tuple(block.device_ns[1:] for block in blocks), tuple(block.device_ns[0] for block in blocks))
    return Blocks(tuple(block.runs_ns for block in blocks), tuple(block.cold_ns for block in blocks))


_NAMES = ("reference", "null", "candidate")


def _nothing() -> None:
    """Observe nothing."""


def measure(
    reference: Call,
    null: Call,
    candidate: Call,
    plan: LatencyPlan,
    *,
    clock: Clock = time.perf_counter_ns,
    machine: Callable[[], MachineState] = read_machine,
    observe: Callable[[], object] = _nothing,
) -> LatencyResult:
    """Time the three calls in rounds until every limit of `plan` is decided or its budget is spent.

    Warming up is part of the budget. No round is begun that would last longer than what is left of it; where not even
    one fits, the result is made of the first run of each engine, with a reason that these are too few.

    Parameters
    ----------
    reference, candidate : one run of each engine. Where all three are `ByDevice` their own times are judged; budgets
        and the lengths of blocks go by the host's clock in any case.
    null : one run of a second session of the reference; the difference between the two is noise.
    plan : budgets, limits to decide and the seed of the order.
    clock : nanoseconds.
    machine : reads the counters of other load on the machine.
    observe : called when warming up is over and after each round, at most `plan.max_rounds` + 1 times, but where a
        limit on a tail takes more rounds, and never within a timed run; what it takes is part of the budget.
    """
    before, started = machine(), clock()
    calls = (reference, null, candidate)
    warm = [warm_up(call, plan, clock) for call in calls]
    observe()
    until = started + int(plan.max_s * _NS_PER_S)
    left_s = max(until - clock(), 0) / _NS_PER_S
    of_tails = _rounds_of_tails(plan, beyond=0)
    if _round_ns([1] * len(calls), warm) * of_tails > left_s * _NS_PER_S:
        of_tails = 0  # no number of rounds that fit bounds the tail: the other figures are worth the time
    most = max(plan.max_rounds, _rounds_of_tails(plan) if of_tails else 0)
    runs = [runs_of_block(one.run_ns, plan, left_s, of_tails) for one in warm]
    if _round_ns(runs, warm) * plan.min_rounds > left_s * _NS_PER_S:
        # One engine is too slow for its share of the time: more rounds are worth more than more runs of the others.
        runs = [1] * len(runs)
    if _round_ns(runs, warm) <= until - clock():
        result = _timed(calls, runs, plan, most, clock, until, observe)
    else:
        of_reference, of_null, of_candidate = ([Block(one.first_ns, (one.first_ns,))] for one in warm)
        result = latency_figures(of_reference, of_null, of_candidate, plan)
    spent_s = (clock() - started) / _NS_PER_S
    notes = (*_unsettled(warm, plan), *result.notes, *machine_notes(before, machine()))
    return replace(result, spent_s=spent_s, notes=notes)


def _round_ns(runs: Sequence[int], warm: Sequence[Warm]) -> float:
    """Return the nanoseconds of one round, the cold run of each block included."""
    return sum((n + 1) * one.run_ns for n, one in zip(runs, warm, strict=True))


def _timed(
    calls: Sequence[Call],
    runs: Sequence[int],
    plan: LatencyPlan,
    most: int,
    clock: Clock,
    until: int,
    observe: Callable[[], object],
) -> LatencyResult:
    """Add rounds until every limit is decided, there are `most`, or another one would not be over at `until`.

    The sign test takes rounds of any precision: blocks become shorter where load that came after warming up leaves too
    little time for the fewest rounds, and longer after a look that leaves a limit open.
    """
    blocks: tuple[list[Block], list[Block], list[Block]] = ([], [], [])
    order = random.Random(plan.seed)  # nosec B311 # noqa: S311 - an order, not a secret
    while True:
        began = clock()
        for index in order.sample(range(len(calls)), len(calls)):
            blocks[index].append(time_block(calls[index], runs[index], clock))
        observe()
        rounds, now = len(blocks[0]), clock()
        round_ns: float = now - began
        if rounds < plan.min_rounds:
            last = [side[-1] for side in blocks]
            runs, round_ns = _shorter(runs, last, plan.min_rounds - rounds, round_ns, until - now)
        spent = rounds >= most or now + round_ns > until
        looking = rounds >= plan.min_rounds and (rounds - plan.min_rounds) % plan.look_every == 0
        if spent or looking:
            result = latency_figures(*blocks, plan)
            if spent or _decided(result, plan):
                return result
            if plan.min_speedup is not None or plan.max_latency_ms:
                runs = _longer(runs, most - rounds, round_ns, until - now)


def _shorter(
    runs: Sequence[int], last: Sequence[Block], rounds: int, round_ns: float, left_ns: int
) -> tuple[Sequence[int], float]:
    """Return as many runs of each block as let `rounds` more fit into the time that is left, and a round's nanoseconds.

    One run for each block is the least, and as many as in the `last` round, which took `round_ns`, the most.
    """
    timed_ns = max(sum(sum(block.runs_ns) for block in last), 1)
    other_ns = max(round_ns - timed_ns, 0)
    share = (left_ns / rounds - other_ns) / timed_ns
    if share >= 1.0:
        return runs, round_ns
    fewer = [max(1, int(share * one)) for one in runs]
    return fewer, other_ns + sum(statistics.mean(block.runs_ns) * n for block, n in zip(last, fewer, strict=True))


def _longer(runs: Sequence[int], rounds: int, round_ns: float, left_ns: int) -> Sequence[int]:
    """Return twice as many runs of each block where so many rounds of them fit into the time that is left."""
    twice = [min(2 * one, _MAX_RUNS) for one in runs]
    return twice if 2 * rounds * round_ns <= left_ns else runs


def _unsettled(warm: Sequence[Warm], plan: LatencyPlan) -> Iterator[str]:
    """Name the engines whose times still changed when warming up ended."""
    for name, one in zip(_NAMES, warm, strict=True):
        if not one.settled:
            yield f"warm-up: the {name} had not settled after {warmup_s(plan):g} s"


_HARDLY = 1.25
"""Times the part of sessions: without any noise of rounds the half-width would be four fifths of what it is."""


def _decided(result: LatencyResult, plan: LatencyPlan) -> bool:
    """Whether each limit is outside of its figure's interval; without limits, whether the speedup is precise enough.

    It is when its interval is narrow, or when more rounds would hardly narrow it: most of it is noise between sessions.
    That a percentile is within its limit is looked at once, when all its rounds are there.
    """
    if result.reasons:
        return False
    if plan.min_speedup is None and not plan.max_latency_ms:
        sessions_pct = 100.0 * reach(plan.confidence) * result.session_sd
        return result.half_width_pct <= max(100.0 * plan.precision, _HARDLY * sessions_pct)
    if plan.min_speedup is not None and result.speedup_ci.low < plan.min_speedup <= result.speedup_ci.high:
        return False
    bounds = {percentile: (low, high) for percentile, low, high in result.percentile_bounds_ms}
    for percentile, allowed in plan.max_latency_ms:
        low, high = bounds[percentile]
        waits = percentile != 50.0 and len(result.candidate.runs_ns) < _rounds_of_tails(plan)
        below, above = high is not None and high <= allowed and not waits, low is not None and low > allowed
        if not (below or above):
            return False
    return True
