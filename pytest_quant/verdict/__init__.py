"""Judging: results and limits in, verdicts out. Pure; nothing here measures, prints or fails a test.

What measures is handed the `Judge` of its check, and asks it whether to measure again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_quant.result import AccuracyResult, Baseline, LatencyResult, Measured, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.accuracy_limits import accuracy_verdicts
from pytest_quant.verdict.doubt import (
    accuracy_left_out,
    allow_for_missing,
    doubt_worthless_scores,
    inconclusive_if_classes_change,
    inconclusive_if_placeholder,
    note_unread_outputs,
    reference_doubts,
    require_agreement,
)
from pytest_quant.verdict.latency_limits import OF_ALL_LAUNCHES, latency_verdicts
from pytest_quant.verdict.processors import processor_verdicts
from pytest_quant.verdict.rules import coverage_verdicts, mark_no_baseline, resource_verdicts

__all__ = ["Judge", "note_unread_outputs", "reference_doubts", "worst"]


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges the limits of one check.

    Attributes
    ----------
    limits : those of the check.
    baseline : what earlier records of its series say, or why there are none; ``None`` where no limit asks.
    """

    limits: Limits
    baseline: Baseline | str | None = None

    def broken(self, latency: LatencyResult) -> bool:
        """Return whether `latency` breaks a limit on the latency itself."""
        return any(verdict.status is Status.FAIL for verdict in latency_verdicts(self.limits, latency))

    def undecided(self, latency: LatencyResult) -> bool:
        """Return whether more launches could decide a limit that `latency` leaves undecided."""
        # Here, because one launch, which decides most checks, needs no statistics of launches.
        from pytest_quant.verdict.baseline import increases_to_narrow

        own = (verdict for verdict in latency_verdicts(self.limits, latency) if verdict.limit in OF_ALL_LAUNCHES)
        verdicts = (*own, *increases_to_narrow(self.limits, latency, self.baseline))
        return any(each.status is Status.INCONCLUSIVE and each.observed is not None for each in verdicts)

    def verdicts(self, measured: Measured) -> tuple[Verdict, ...]:
        """Return one verdict for each limit, in the order of the mark's table."""
        check, again, baseline = measured.check, measured.accuracy_again, self.baseline
        if check.is_alone and isinstance(baseline, Baseline):
            # It is the reference itself, which lost nothing.
            baseline = replace(baseline, drop=0.0, accuracy=None)
        limits, latency = self.limits, measured.latency
        coverage, resources = measured.coverage, measured.resources

        def on_accuracy(accuracy: AccuracyResult) -> tuple[Iterable[Verdict], Iterable[Verdict]]:
            own = accuracy_verdicts(limits, accuracy, check.confidence, check.output)
            if not limits.judges_history:
                return own, ()
            # Here, because other checks need no statistics of launches.
            from pytest_quant.verdict.baseline import baseline_verdicts

            return own, baseline_verdicts(limits, accuracy, latency, baseline)

        own, against_earlier = on_accuracy(measured.accuracy)
        if again is not None:
            own, against_earlier = map(require_agreement, (own, against_earlier), on_accuracy(again))
        if lacking := measured.accuracy.candidate_missing:
            at_worst = ((), ()) if measured.accuracy_at_worst is None else on_accuracy(measured.accuracy_at_worst)
            own, against_earlier = map(allow_for_missing, (own, against_earlier), at_worst, (lacking, lacking))
        own = inconclusive_if_classes_change(own, measured.unsteady)
        verdicts = (
            *doubt_worthless_scores(own, measured.accuracy, check.output),
            *latency_verdicts(limits, latency, check.latency_off),
            *(() if resources is None else resource_verdicts(limits, resources, check.latency_off)),
            *(() if coverage is None else coverage_verdicts(limits, coverage)),
            *processor_verdicts(check, measured.portability),
            *doubt_worthless_scores(against_earlier, measured.accuracy, check.output),
        )
        if check.is_alone and measured.accuracy.drop is None:
            why = measured.accuracy.note
            # The candidate's own score needs nothing to compare with.
            return tuple(each if each.limit == "min_accuracy" else mark_no_baseline(each, why) for each in verdicts)
        kept = dict.fromkeys(engine.words for engine in measured.unsteady if engine.keeps_state)
        if why_not := check.accuracy_off or "; ".join(kept):
            verdicts = tuple(accuracy_left_out(verdicts, why_not))
        return tuple(inconclusive_if_placeholder(verdicts, check.dataset)) if check.dataset.stands_in else verdicts


def worst(verdicts: Sequence[Verdict]) -> Status:
    """Return the worst status of `verdicts`, PASS when there are none."""
    order = list(Status)
    return min((verdict.status for verdict in verdicts), key=order.index, default=Status.PASS)
