"""From the raw runs of all rounds to the figures of a `LatencyResult`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import chain

from pytest_quant.latency.block import Block
from pytest_quant.latency.noise import budget_reasons, noise_notes, null_reasons
from pytest_quant.result import Blocks, Interval, LatencyResult
from pytest_quant.spec import LatencyPlan
from pytest_quant.stats.percentile import percentile_bounds
from pytest_quant.stats.ratio import median_interval, paired_ratio

_NS_PER_MS = 1e6
_STATED_PERCENTILES = (90.0, 99.0)


def latency_figures(
    reference: Sequence[Block], null: Sequence[Block], candidate: Sequence[Block], plan: LatencyPlan
) -> LatencyResult:
    """Compute every figure from the same rounds, two at least, of the three engines."""
    ref, nul, cand = _blocks(reference), _blocks(null), _blocks(candidate)
    ref_ns, null_ns, cand_ns = ref.medians_ns, nul.medians_ns, cand.medians_ns
    speedup = paired_ratio(ref_ns, cand_ns, confidence=plan.confidence, seed=plan.seed)
    null_ratio = paired_ratio(null_ns, ref_ns, confidence=plan.confidence, seed=plan.seed)
    p50 = median_interval(cand_ns, confidence=plan.confidence, seed=plan.seed)
    runs_ms = [run / _NS_PER_MS for run in chain.from_iterable(cand.runs_ns)]
    bounds: dict[float, tuple[float | None, float | None]] = {50.0: (p50.low / _NS_PER_MS, p50.high / _NS_PER_MS)}
    for percentile in {*_STATED_PERCENTILES, *(asked for asked, _ in plan.max_latency_ms)} - {50.0}:
        bounds[percentile] = percentile_bounds(runs_ms, percentile, confidence=plan.confidence)
    null_interval = Interval(null_ratio.low, null_ratio.high)
    return LatencyResult(
        batch_size=plan.batch_size,
        rounds=len(cand_ns),
        reference=ref,
        null=nul,
        candidate=cand,
        reference_p50_ms=statistics.median(ref_ns) / _NS_PER_MS,
        candidate_p50_ms=p50.value / _NS_PER_MS,
        candidate_p90_ms=_stated(runs_ms, 90, bounds[90.0][1]),
        candidate_p99_ms=_stated(runs_ms, 99, bounds[99.0][1]),
        percentile_bounds_ms=tuple((percentile, *bounds[percentile]) for percentile in sorted(bounds)),
        speedup=speedup.value,
        speedup_ci=Interval(speedup.low, speedup.high),
        null_ratio_ci=null_interval,
        half_width_pct=50.0 * (speedup.high - speedup.low) / speedup.value,
        reasons=(*null_reasons(null_interval), *budget_reasons(len(cand_ns), plan)),
        notes=noise_notes(cand_ns, ref_ns),
    )


def _stated(runs_ms: Sequence[float], percentile: int, upper: float | None) -> float | None:
    """Return a percentile only when there were enough runs to bound it from above."""
    return None if upper is None else statistics.quantiles(runs_ms, n=100, method="inclusive")[percentile - 1]


def _blocks(blocks: Sequence[Block]) -> Blocks:
    return Blocks(tuple(block.runs_ns for block in blocks), tuple(block.cold_ns for block in blocks))
