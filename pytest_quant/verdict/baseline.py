"""Limits against an earlier record of the same series: an accepted one, else one of the merge base."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_quant.result import AccuracyResult, Baseline, LatencyResult, NoBaseline, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.rules import at_most, not_measured, written


def baseline_verdicts(
    limits: Limits, accuracy: AccuracyResult, latency: LatencyResult | None, baseline: Baseline | NoBaseline | None
) -> Iterator[Verdict]:
    """Yield the verdicts on `max_slowdown` and `max_drop_increase`, where the check sets them.

    Parameters
    ----------
    limits : those of the check.
    accuracy : drop of this run, in the metric's unit.
    latency : speedup of this run with its interval; ``None`` when latency was not measured.
    baseline : the accepted record, or why there is none; ``None`` when no record of the series was accepted.
    """
    if limits.max_slowdown is not None:
        yield _slowdown(limits.max_slowdown, latency, baseline)
    if limits.max_drop_increase is not None:
        yield _drop_increase(limits.max_drop_increase, accuracy, baseline)


def _no_baseline(limit: str, allowed: float, baseline: NoBaseline | None) -> Verdict:
    why = "no record of this series was accepted" if baseline is None else baseline.why
    return Verdict(limit, allowed, None, Status.NO_BASELINE, f"{why}; accept a record: pytest-quant accept")


def _slowdown(allowed: float, latency: LatencyResult | None, baseline: Baseline | NoBaseline | None) -> Verdict:
    """Judge how much of the baseline's speedup is lost, in percent.

    Both sides are divided by the reference of their own run, which cancels the state of the machine.
    """
    if latency is None:
        return not_measured("max_slowdown", allowed, "latency measurement is off")
    if not isinstance(baseline, Baseline):
        return _no_baseline("max_slowdown", allowed, baseline)
    if baseline.speedup is None or not baseline.same_identity:
        why = f"the baseline of {baseline.commit[:12]} was timed on another machine or in another way, or not at all"
        return _no_baseline("max_slowdown", allowed, NoBaseline(why))
    slowdown_pct, low, high = (
        100.0 * (baseline.speedup / speedup - 1.0)
        for speedup in (latency.speedup, latency.speedup_ci.high, latency.speedup_ci.low)
    )
    span = f"slowdown {slowdown_pct:.2f} % [{low:.2f}, {high:.2f}] against {baseline.commit[:12]}"
    if latency.reasons:
        reason = f"the timing is not to be trusted: {'; '.join(latency.reasons)}"
        return Verdict("max_slowdown", allowed, slowdown_pct, Status.INCONCLUSIVE, reason)
    if high <= allowed:
        return Verdict("max_slowdown", allowed, slowdown_pct, Status.PASS, f"{span} lies within {written(allowed)} %")
    if low > allowed:
        return Verdict("max_slowdown", allowed, slowdown_pct, Status.FAIL, f"{span} lies above {written(allowed)} %")
    return Verdict("max_slowdown", allowed, slowdown_pct, Status.INCONCLUSIVE, f"{span} encloses {written(allowed)} %")


def _drop_increase(allowed: float, accuracy: AccuracyResult, baseline: Baseline | NoBaseline | None) -> Verdict:
    if accuracy.drop is None:
        return not_measured("max_drop_increase", allowed, "no metric could be computed")
    if not isinstance(baseline, Baseline):
        return _no_baseline("max_drop_increase", allowed, baseline)
    if baseline.drop is None:
        why = f"the baseline of {baseline.commit[:12]} has no drop"
        return _no_baseline("max_drop_increase", allowed, NoBaseline(why))
    own_drop = accuracy.drop if baseline.own_drop is None else baseline.own_drop
    verdict = at_most("max_drop_increase", allowed, own_drop - baseline.drop, " pp")
    return replace(verdict, reason=f"{verdict.reason}, {baseline.counted}") if baseline.counted else verdict
