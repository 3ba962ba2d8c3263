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
from pytest_quant.verdict.accuracy import accuracy_verdicts, carried, reference_doubts, repeated
from pytest_quant.verdict.baseline import baseline_verdicts
from pytest_quant.verdict.latency import latency_verdicts
from pytest_quant.verdict.proof import coverage_verdicts, resource_verdicts

__all__ = ["judge", "latency_verdicts", "reference_doubts", "worst"]


def judge(
    check: Check,
    accuracy: AccuracyResult,
    latency: LatencyResult | None,
    coverage: Coverage,
    resources: Resources,
    baseline: Baseline | NoBaseline | None = None,
    again: AccuracyResult | None = None,
) -> tuple[Verdict, ...]:
    """Return one verdict for each limit that `check` sets, in the order of the mark's table.

    `again` is a second evaluation, where an engine differs from itself on the same batch.
    """
    limits = check.limits
    of_accuracy = accuracy_verdicts(limits, accuracy, check.confidence, check.output)
    if again is not None:
        of_accuracy = repeated(of_accuracy, accuracy_verdicts(limits, again, check.confidence, check.output))
    return (
        *carried(of_accuracy, accuracy, check.output),
        *latency_verdicts(limits, latency, check.latency_off),
        *resource_verdicts(limits, resources),
        *coverage_verdicts(limits, coverage, check.candidate.scheme),
        *carried(baseline_verdicts(limits, accuracy, latency, baseline), accuracy, check.output),
    )


def worst(verdicts: Sequence[Verdict]) -> Status:
    """Return the worst status of `verdicts`, PASS when there are none."""
    order = list(Status)
    return min((verdict.status for verdict in verdicts), key=order.index, default=Status.PASS)
