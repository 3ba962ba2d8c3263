"""Judging: results and limits in, verdicts out. Pure; nothing here measures, prints or fails a test."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_quant.result import Baseline, LatencyResult, Measured, NoBaseline, Status, Verdict
from pytest_quant.spec import Check
from pytest_quant.stats.draws import LOOKS
from pytest_quant.verdict.accuracy import accuracy_verdicts, carried, reference_doubts
from pytest_quant.verdict.baseline import baseline_verdicts, launches_tell
from pytest_quant.verdict.latency import latency_verdicts
from pytest_quant.verdict.placeholder import on_placeholder
from pytest_quant.verdict.rules import coverage_verdicts, resource_verdicts
from pytest_quant.verdict.unsteady import repeated, within_itself

__all__ = ["breaks_latency", "in_doubt", "judge", "reference_doubts", "worst"]


def judge(measured: Measured, baseline: Baseline | NoBaseline | None = None) -> tuple[Verdict, ...]:
    """Return one verdict for each limit that the check sets, in the order of the mark's table."""
    check, accuracy, again = measured.check, measured.accuracy, measured.accuracy_again
    limits = check.limits
    of_accuracy = accuracy_verdicts(limits, accuracy, check.confidence, check.output)
    if again is not None:
        of_accuracy = repeated(of_accuracy, accuracy_verdicts(limits, again, check.confidence, check.output))
    against_earlier = baseline_verdicts(limits, accuracy, measured.latency, baseline)
    of_accuracy, against_earlier = (
        within_itself(verdicts, accuracy, measured.unsteady) for verdicts in (of_accuracy, against_earlier)
    )
    found = (
        *carried(of_accuracy, accuracy, check.output),
        *latency_verdicts(limits, measured.latency, check.latency_off),
        *resource_verdicts(limits, measured.resources, check.latency_off),
        *coverage_verdicts(limits, measured.coverage, check.candidate.scheme),
        *carried(against_earlier, accuracy, check.output),
    )
    return tuple(on_placeholder(found, check.dataset)) if check.dataset.stands_in else found


LAUNCHED = ("min_speedup", "max_latency_ms", "max_slowdown", "max_p50_increase")
"""Limits on figures that every launch gives: more launches tell more about them."""


_AGAINST_EARLIER = ("max_slowdown", "max_p50_increase")


def in_doubt(measured: Measured, baseline: Baseline | NoBaseline | None) -> bool:
    """Tell whether a limit of `measured` is undecided that more launches could decide."""
    return any(
        verdict.limit in LAUNCHED
        and verdict.status is Status.INCONCLUSIVE
        and verdict.observed is not None
        and _would_tell(verdict.limit, measured.latency, baseline)
        for verdict in judge(measured, baseline)
    )


def _would_tell(limit: str, latency: LatencyResult | None, baseline: Baseline | NoBaseline | None) -> bool:
    """Whether more launches of today narrow the interval of a limit: those of a base of other days they may not."""
    if limit not in _AGAINST_EARLIER or latency is None or not isinstance(baseline, Baseline):
        return True
    return launches_tell(limit, latency, baseline, LOOKS[-1] - 1)


def breaks_latency(check: Check, latency: LatencyResult) -> bool:
    """Tell whether `latency` breaks a limit of `check`."""
    return any(one.status is Status.FAIL for one in latency_verdicts(check.limits, latency))


def worst(verdicts: Sequence[Verdict]) -> Status:
    """Return the worst status of `verdicts`, PASS when there are none."""
    order = list(Status)
    return min((verdict.status for verdict in verdicts), key=order.index, default=Status.PASS)
