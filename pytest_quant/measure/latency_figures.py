"""From the blocks of the three engines to the figures of a latency: ratio, interval, percentiles, signs of noise.

A reason speaks against the figures: the null is off, and they may be as far off, or there are too few rounds for any
interval. A note goes with figures that hold, because interleaving cancels what affects all engines alike.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import psutil

from pytest_quant.clocks import REAL
from pytest_quant.host import processors, times_throttled
from pytest_quant.measure.interleave import NS_PER_MS, Block
from pytest_quant.result import NULL_OFF, Blocks, Interval, LatencyResult, PercentileBound, TokenTime, WhichToken
from pytest_quant.spec import LatencyPlan
from pytest_quant.stats.means import LOOK_CONFIDENCE, median_with_error
from pytest_quant.stats.ratio import fewest_rounds, percentile_bounds, runs_needed
from pytest_quant.stats.rounds import (
    OF_RATIO,
    Floats,
    JudgedRounds,
    Looks,
    judge_ratio,
    judge_rounds,
    judge_sets,
    session_sets,
)


def latency_figures(blocks: Sequence[Sequence[Block]], plan: LatencyPlan, sets: Sequence[int] = ()) -> LatencyResult:
    """Compute every figure from the same rounds of the three engines, by the device's clock if each engine has one.

    Parameters
    ----------
    blocks : of the reference, the null and the candidate, one for each round.
    plan : looks, confidence of the intervals, noise between sessions, and the percentiles to bound.
    sets : rounds of each set of sessions, in order; none where all are of one set.
    """
    by_device = all(block.device_ns for block in chain.from_iterable(blocks))
    sides = ref, nul, cand = [choose_blocks(side, by_device) for side in blocks]
    # Before the last look rounds are added, whatever the ratio is.
    looks = Looks(plan.min_rounds, plan.look_every, max(plan.max_rounds, plan.min_rounds), plan.confidence)
    rounds = len(ref.runs_ns) if sets else min(len(ref.runs_ns), looks.most)  # those after them are for the tails only
    ref_ns, null_ns, cand_ns = (side.medians_ns[:rounds] for side in sides)
    ref_logs, null_logs, cand_logs = np.log(ref_ns), np.log(null_ns), np.log(cand_ns)
    first = slice(None, sets[0] if sets else None)
    ratio, of_null = judge_ratio(ref_logs[first], null_logs[first], cand_logs[first], looks, plan.sessions)
    p50 = judge_rounds(cand_logs[first], (cand_logs[first],), looks, ratio.session_sd)
    p50_ms = _interval(p50, 1.0 / NS_PER_MS)
    runs_ms = [run / NS_PER_MS for run in chain.from_iterable(cand.runs_ns)]
    bounds: dict[float, tuple[float | None, float | None]] = {50.0: (p50_ms.low, p50_ms.high)}
    for percentile in {90.0, 99.0, *(limited for limited, _ in plan.most_ms)} - {50.0}:
        clusters = len(cand.runs_ns)
        bounds[percentile] = percentile_bounds(runs_ms, percentile, confidence=plan.confidence, clusters=clusters)
    speedup, speedup_ci, null_ratio_ci = float(np.exp(ratio.span.value).item()), _interval(ratio), _interval(of_null)
    result = LatencyResult(
        batch_size=plan.batch_size,
        rounds=rounds,
        reference=ref,
        null=nul,
        candidate=cand,
        reference_p50_ms=statistics.median(ref_ns) / NS_PER_MS,
        candidate_p50_ms=statistics.median(cand_ns) / NS_PER_MS,
        candidate_p90_ms=_read_percentile(runs_ms, 90, plan),
        candidate_p99_ms=_read_percentile(runs_ms, 99, plan),
        percentile_bounds=tuple(PercentileBound(percentile, *bounds[percentile]) for percentile in sorted(bounds)),
        speedup=speedup,
        speedup_ci=speedup_ci,
        null_ratio_ci=null_ratio_ci,
        half_width_pct=50.0 * (speedup_ci.high - speedup_ci.low) / speedup,
        reasons=(*null_reasons(null_ratio_ci, plan.sessions.sd), *budget_reasons(rounds, plan)),
        confidence=plan.confidence,
        looks=len(looks.until(rounds)),
        session_sd=float(ratio.session_sd.item()),
        effective_rounds=float(ratio.effective_rounds.item()),
        widened=explain_widening(ratio, rounds, plan),
        error=_error((ref_logs, null_logs, cand_logs), sets) if rounds > 1 else None,
        tokens=tuple(_token_times(blocks, first, looks, ratio.session_sd)),
        rounds_by_set=tuple(sets) or (rounds,),
        sets=max(len(sets), 1),
    )
    if len(sets) > 1:
        result = _join_sets(result, p50_ms, (ref_logs, null_logs, cand_logs), plan)
    if not by_device:
        return result
    host_ns = (statistics.median(choose_blocks(side, by_device=False).medians_ns) for side in (blocks[0], blocks[2]))
    medians = " -> ".join(f"{median / NS_PER_MS:.4g}" for median in host_ns)
    note = f"timed by the device's clock; by the host's p50 {medians} ms, which counts what the host does for a run"
    return replace(result, clock="device", notes=(*result.notes, note))


def _error(logs: tuple[Floats, Floats, Floats], sets: Sequence[int]) -> float:
    """Return the standard error of the log speedup within one launch.

    Where it has several sets of sessions, both sessions of the reference count, and rounds scatter around the median of
    their own set.
    """
    reference, null, candidate = logs
    ratios = ((reference + null) / 2.0 if len(sets) > 1 else reference) - candidate
    of_sets = np.split(ratios, np.cumsum(sets[:-1], dtype=int))
    return median_with_error(np.concatenate([of_set - np.median(of_set) for of_set in of_sets]).tolist()).error


def _token_times(
    blocks: Sequence[Sequence[Block]], first: slice, looks: Looks, session_sd: Floats
) -> Iterator[TokenTime]:
    """Yield the times of tokens of a candidate that streams them, as far as each of its rounds has one."""
    names: tuple[WhichToken, ...] = ("ttft", "tpot")
    for index, name in enumerate(names):
        reference, candidate = (
            [statistics.median(run[index] for run in block.tokens_ns) for block in side if block.tokens_ns]
            for side in (blocks[0], blocks[2])
        )
        rounds = min(len(blocks[2]), looks.most)
        if len(candidate) < rounds or not np.isfinite(candidate).all():
            continue
        logs = np.log(candidate[:rounds])[first]
        span = _interval(judge_rounds(logs, (logs,), looks, session_sd), 1.0 / NS_PER_MS)
        other = statistics.median(reference) / NS_PER_MS if reference and np.isfinite(reference).all() else None
        yield TokenTime(name, other, statistics.median(candidate) / NS_PER_MS, span)


def _join_sets(
    result: LatencyResult, first_p50: Interval, logs: tuple[Floats, Floats, Floats], plan: LatencyPlan
) -> LatencyResult:
    """Return the figures of several sets of sessions together, in place of the figures of their rounds.

    `first_p50` is the interval of the median that the first set alone gives.
    """
    sets = session_sets(*logs, result.rounds_by_set)
    # As many looks at sets as at launches, at the level that makes them err together as one look would.
    confidence = 1.0 - (1.0 - plan.confidence) * ((1.0 - LOOK_CONFIDENCE) / 0.05)
    *over, session_sd = judge_sets(sets, plan.sessions, confidence)
    log_ratio, _, log_ns = (estimate.value for estimate in over)
    span, of_null, p50 = (Interval(math.exp(estimate.low), math.exp(estimate.high)) for estimate in over)
    speedup, of_p50 = math.exp(log_ratio), PercentileBound(50.0, p50.low / NS_PER_MS, p50.high / NS_PER_MS)
    # What is judged within one set, times of tokens for example, differs between sessions as the median does.
    further = math.sqrt(p50.high / p50.low * first_p50.low / first_p50.high)
    return replace(
        result.wider(times=max(further, 1.0)),
        candidate_p50_ms=math.exp(log_ns) / NS_PER_MS,
        reference_p50_ms=math.exp(log_ratio + log_ns) / NS_PER_MS,
        percentile_bounds=tuple(of_p50 if bound.percentile == 50.0 else bound for bound in result.percentile_bounds),
        speedup=speedup,
        speedup_ci=span,
        null_ratio_ci=of_null,
        half_width_pct=50.0 * (span.high - span.low) / speedup,
        reasons=(*null_reasons(of_null, plan.sessions.sd / math.sqrt(len(sets))), *budget_reasons(result.rounds, plan)),
        session_sd=math.sqrt(OF_RATIO / len(sets)) * session_sd,
        effective_rounds=float(len(sets)),
        widened=f"the {100 * plan.confidence:g} % interval rests on {len(sets)} sets of sessions, which differ by "
        f"{100 * session_sd:.2g} % (standard deviation)",
    )


def _interval(judged: JudgedRounds, unit: float = 1.0) -> Interval:
    return Interval(*(float(np.exp(end).item()) * unit for end in (judged.span.low, judged.span.high)))


def _read_percentile(runs_ms: Sequence[float], percentile: int, plan: LatencyPlan) -> float | None:
    """Return a percentile in ms, ``None`` when as many independent runs would not bound it from above."""
    if len(runs_ms) < runs_needed(percentile, plan.confidence):
        return None
    return statistics.quantiles(runs_ms, n=100, method="inclusive")[percentile - 1]


def choose_blocks(blocks: Sequence[Block], by_device: bool) -> Blocks:
    """Return the times of one engine's blocks by the clock of its device, or by the host's."""
    if by_device:
        return Blocks(tuple(block.device_ns[1:] for block in blocks), tuple(block.device_ns[0] for block in blocks))
    return Blocks(tuple(block.host_ns for block in blocks), tuple(block.cold_ns for block in blocks))


NULL_TOLERANCE = 1.02
"""Interleaved in one process, two sessions of one model differ by 0.4 to 0.6 % (standard deviation) between
launches; beyond 2 % something other than the model is measured, unless the runner is known for more."""


def null_reasons(null_ratio: Interval, session_sd: float = 0.0) -> tuple[str, ...]:
    """Return a reason if the interval of the null's ratio is beyond the tolerance, else nothing.

    Parameters
    ----------
    null_ratio : null / reference.
    session_sd : known standard deviation of its logarithm between sessions, or of its mean over sets of them; four of
        them are tolerated.
    """
    # What a null shows up to four standard deviations between sessions widens the interval, see `moderated_sd`.
    tolerance = max(NULL_TOLERANCE, math.exp(4.0 * session_sd))
    if null_ratio.low > tolerance or null_ratio.high < 1.0 / tolerance:
        span = f"[{null_ratio.low:.3f}, {null_ratio.high:.3f}]"
        return (f"{NULL_OFF}: a second session of the reference took {span} times as long as the first",)
    return ()


def budget_reasons(rounds: int, plan: LatencyPlan) -> tuple[str, ...]:
    """Return a reason if the time was over before there were enough rounds for an interval, else nothing."""
    fewest = fewest_rounds(plan.confidence)
    if rounds < fewest:
        needed = f"{100 * plan.confidence:g} % confidence needs {fewest}"
        return (f"too few rounds within {plan.max_s:.3g} s: {rounds}, and {needed}",)
    return ()


def explain_widening(ratio: JudgedRounds, rounds: int, plan: LatencyPlan) -> str:
    """Say what makes the interval of the speedup wider than its rounds alone would.

    Parameters
    ----------
    ratio : log(reference / candidate), as judged.
    rounds : that were judged.
    plan : what was known of the noise between sessions, and the confidence.
    """
    sd = float(ratio.session_sd.item())
    causes = []
    if sd > 0.0:
        # Clearly more than what was known comes from the null.
        shown = " that this launch's null shows" if sd > 1.25 * plan.sessions.sd else ""
        causes.append(f"for sessions that differ by {100 * sd:.2g} % (standard deviation){shown}")
    r = float(ratio.alike.item())
    # Of independent rounds 95 % stay within 2 / sqrt(n), whatever n (Box and Jenkins 1976, section 2.1.6).
    if r > max(0.5, 2.0 / math.sqrt(rounds)):
        causes.append(
            f"for slow waves: each round resembles the one before it (r = {r:.2f}), so {rounds} rounds count as "
            f"{float(ratio.effective_rounds.item()):.1f}"
        )
    return f"the {100 * plan.confidence:g} % interval allows {' and '.join(causes)}" if causes else ""


_BUSY_FIELDS = ("user", "nice", "system", "irq", "softirq")


@dataclass(frozen=True, slots=True)
class MachineState:
    """Counters at one moment; only differences between two of them mean anything.

    Attributes
    ----------
    at_s : a monotonic clock.
    own_s : processor seconds of this process, all threads together.
    busy_s, stolen_s : of the `processors` that this process may use: seconds spent on any process, and seconds
        that the hypervisor gave to somebody else.
    throttled : times that a CPU limit stopped this process's control group.
    """

    at_s: float
    own_s: float
    busy_s: float
    stolen_s: float
    throttled: int
    processors: int


def read_machine() -> MachineState:
    """Read every counter now; counters that the system does not have are 0."""
    times = psutil.cpu_times(percpu=True)
    own = [times[index] for index in processors() if index < len(times)]
    return MachineState(
        at_s=REAL.perf_counter(),
        own_s=time.process_time(),
        busy_s=sum(getattr(processor, name, 0.0) for processor in own for name in _BUSY_FIELDS),
        stolen_s=sum(getattr(processor, "steal", 0.0) for processor in own),
        throttled=times_throttled(),
        processors=len(own),
    )


def disturbances_between(before: MachineState, after: MachineState) -> dict[str, str]:
    """Return what took processor time away between two readings: a note for each kind."""
    elapsed_s = after.at_s - before.at_s
    if elapsed_s <= 0.0 or after.processors == 0:
        return {}
    notes = {}
    others = ((after.busy_s - before.busy_s) - (after.own_s - before.own_s)) / elapsed_s
    if others > 0.25:
        notes["busy machine"] = f"other processes used {others:.1f} of {after.processors} processors"
    stolen = (after.stolen_s - before.stolen_s) / (elapsed_s * after.processors)
    if stolen > 0.01:
        notes["stolen time"] = f"the hypervisor took {100 * stolen:.0f} % of the processors' time"
    throttled = after.throttled - before.throttled
    if throttled > 0:
        notes["throttled"] = f"a CPU limit of the control group stopped this process {throttled} times"
    return notes
