"""Judging: results and limits in, verdicts out. Pure; nothing here measures, prints or fails a test."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_quant.result import (
    AccuracyResult,
    Baseline,
    Coverage,
    LatencyResult,
    NoBaseline,
    Resources,
    Status,
    Verdict,
)
from pytest_quant.spec import Check
from pytest_quant.verdict.accuracy import accuracy_verdicts
from pytest_quant.verdict.baseline import baseline_verdicts
from pytest_quant.verdict.latency import latency_verdicts
from pytest_quant.verdict.proof import coverage_verdicts, resource_verdicts

__all__ = ["judge", "latency_verdicts", "worst"]


def judge(
    check: Check,
    accuracy: AccuracyResult,
    latency: LatencyResult | None,
    coverage: Coverage,
    resources: Resources,
    baseline: Baseline | NoBaseline | None = None,
) -> tuple[Verdict, ...]:
    """Return one verdict for each limit that `check` sets, in the order of the mark's table."""
    limits = check.limits
    return (
        *accuracy_verdicts(limits, accuracy, check.confidence, check.output),
        *latency_verdicts(limits, latency, check.latency_off),
        *resource_verdicts(limits, resources),
        *coverage_verdicts(limits, coverage),
        *baseline_verdicts(limits, accuracy, latency, baseline),
    )


def worst(verdicts: Sequence[Verdict]) -> Status:
    """Return the worst status of `verdicts`, PASS when there are none."""
    order = list(Status)
    return min((verdict.status for verdict in verdicts), key=order.index, default=Status.PASS)
