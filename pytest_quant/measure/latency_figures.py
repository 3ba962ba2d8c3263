"""From the blocks of the three engines to the figures of a latency: ratio, interval, percentiles and notes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from pytest_quant.measure.block import NS_PER_MS, Block
from pytest_quant.measure.noise import budget_reasons, noise_notes, null_reasons, widening
from pytest_quant.result import Blocks, Interval, LatencyResult
from pytest_quant.spec import LatencyPlan
from pytest_quant.stats.draws import LOOK_CONFIDENCE
from pytest_quant.stats.ratio import percentile_bounds, runs_needed
from pytest_quant.stats.rounds import JudgedRounds, judge_ratio, judge_rounds, judge_sets, session_sets
from pytest_quant.stats.sequential import Floats, Looks

_STATED_PERCENTILES = (90.0, 99.0)


def latency_figures(
    reference: Sequence[Block],
    null: Sequence[Block],
    candidate: Sequence[Block],
    plan: LatencyPlan,
    sets: Sequence[int] = (),
) -> LatencyResult:
    """Compute every figure from the same rounds of the three engines, by the device's clock where each of them has one.

    Parameters
    ----------
    reference, null, candidate : one block for each round.
    plan : looks, confidence of the intervals, noise between sessions, and the percentiles to bound.
    sets : rounds of each set of sessions, in order; none where all are of one set.
    """
    by_device = all(block.device_ns for block in chain(reference, null, candidate))
    sides = ref, nul, cand = [_judged(side, by_device) for side in (reference, null, candidate)]
    looks = looks_of(plan)
    rounds = len(ref.runs_ns) if sets else min(len(ref.runs_ns), looks.most)  # those after them are for the tails only
    ref_ns, null_ns, cand_ns = (side.medians_ns[:rounds] for side in sides)
    ref_logs, null_logs, cand_logs = np.log(ref_ns), np.log(null_ns), np.log(cand_ns)
    first = slice(None, sets[0] if sets else None)
    ratio, of_null = judge_ratio(ref_logs[first], null_logs[first], cand_logs[first], looks, plan.sessions)
    p50 = judge_rounds(cand_logs[first], (cand_logs[first],), looks, ratio.session_sd)
    p50_ms = _interval(p50, 1.0 / NS_PER_MS)
    runs_ms = [run / NS_PER_MS for run in chain.from_iterable(cand.runs_ns)]
    bounds: dict[float, tuple[float | None, float | None]] = {50.0: (p50_ms.low, p50_ms.high)}
    for percentile in {*_STATED_PERCENTILES, *(limited for limited, _ in plan.max_latency_ms)} - {50.0}:
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
        reasons=(*null_reasons(null_ratio_ci, plan.sessions.sd), *budget_reasons(rounds, plan)),
        notes=noise_notes(cand_ns, ref_ns, ratio),
        confidence=plan.confidence,
        looks=len(looks.until(rounds)),
        session_sd=float(ratio.session_sd.item()),
        effective_rounds=float(ratio.effective_rounds.item()),
        widened=widening(ratio, rounds, plan),
    )
    result = replace(result, sets=tuple(sets) or (rounds,))
    if len(sets) > 1:
        result = _over_sets(result, (ref_logs, null_logs, cand_logs), plan)
    if not by_device:
        return result
    host_ns = (statistics.median(_judged(side, by_device=False).medians_ns) for side in (reference, candidate))
    medians = " -> ".join(f"{median / NS_PER_MS:.4g}" for median in host_ns)
    note = f"timed by the device's clock; by the host's p50 {medians} ms, which counts what the host does for a run"
    return replace(result, clock="device", notes=(*result.notes, note))


def _over_sets(result: LatencyResult, logs: tuple[Floats, Floats, Floats], plan: LatencyPlan) -> LatencyResult:
    """Return the figures that several sets of sessions give together in place of those of their rounds."""
    sets = session_sets(*logs, result.sets)
    # As many looks at sets as at launches, at the level that makes them err together as one look would.
    confidence = 1.0 - (1.0 - plan.confidence) * _LOOK_SHARE
    over = judge_sets(sets, plan.sessions, confidence)
    span, of_null, p50 = (
        Interval(math.exp(spread.low), math.exp(spread.high)) for spread in (over.ratio, over.null, over.candidate)
    )
    speedup, of_p50 = math.exp(over.ratio.value), (50.0, p50.low / NS_PER_MS, p50.high / NS_PER_MS)
    return replace(
        result,
        candidate_p50_ms=math.exp(over.candidate.value) / NS_PER_MS,
        reference_p50_ms=math.exp(over.ratio.value + over.candidate.value) / NS_PER_MS,
        percentile_bounds_ms=tuple(of_p50 if bound[0] == of_p50[0] else bound for bound in result.percentile_bounds_ms),
        speedup=speedup,
        speedup_ci=span,
        null_ratio_ci=of_null,
        half_width_pct=50.0 * (span.high - span.low) / speedup,
        reasons=(
            *null_reasons(of_null, plan.sessions.sd / math.sqrt(len(sets))),
            *budget_reasons(result.rounds, plan),
        ),
        session_sd=over.mean_sd,
        effective_rounds=float(len(sets)),
        widened=f"the {100 * plan.confidence:g} % interval is that of {len(sets)} sets of sessions, which differ by "
        f"{100 * over.session_sd:.2g} % (standard deviation)",
    )


_LOOK_SHARE = (1.0 - LOOK_CONFIDENCE) / 0.05


def looks_of(plan: LatencyPlan) -> Looks:
    """Return the looks of a measurement; before the last one rounds are added, whatever the ratio is."""
    return Looks(plan.min_rounds, plan.look_every, max(plan.max_rounds, plan.min_rounds), plan.confidence)


def _value(judged: JudgedRounds) -> float:
    return float(np.exp(judged.span.value).item())


def _interval(judged: JudgedRounds, unit: float = 1.0) -> Interval:
    return Interval(*(float(np.exp(end).item()) * unit for end in (judged.span.low, judged.span.high)))


def _stated(runs_ms: Sequence[float], percentile: int, plan: LatencyPlan) -> float | None:
    """Return a percentile in ms, ``None`` when as many independent runs would not bound it from above."""
    if len(runs_ms) < runs_needed(percentile, plan.confidence):
        return None
    return statistics.quantiles(runs_ms, n=100, method="inclusive")[percentile - 1]


def _judged(blocks: Sequence[Block], by_device: bool) -> Blocks:
    if by_device:
        return Blocks(tuple(block.device_ns[1:] for block in blocks), tuple(block.device_ns[0] for block in blocks))
    return Blocks(tuple(block.host_ns for block in blocks), tuple(block.cold_ns for block in blocks))
