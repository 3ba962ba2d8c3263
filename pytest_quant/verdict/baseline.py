"""Limits against earlier records of the same series: accepted records, else the records of the target branch.

Latency is judged with the noise of both sides: launches differ by more than their rounds tell, and days by more than
launches, so that a baseline is no constant. See `pytest_quant.stats.launches`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_quant.result import AccuracyResult, Baseline, Interval, LatencyResult, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.stats.launch_difference import FEWEST_FREEDOM, LaunchChange, LaunchDifference, percent
from pytest_quant.stats.launches import Launch, days_of, launch_of, logs_of, update_noise
from pytest_quant.stats.means import LAUNCH_LOOKS
from pytest_quant.verdict.accuracy_limits import allow_for_run_noise
from pytest_quant.verdict.latency_limits import describe_null, find_null_distance
from pytest_quant.verdict.rules import judge_by_interval, judge_by_value, mark_no_baseline, mark_unmeasured


def baseline_verdicts(
    limits: Limits, accuracy: AccuracyResult, latency: LatencyResult | None, baseline: Baseline | str | None
) -> Iterator[Verdict]:
    """Yield the verdicts on `max_slowdown`, `max_p50_increase` and `max_drop_increase`, if the check sets them.

    Parameters
    ----------
    limits : those of the check.
    accuracy : drop of this run, in the metric's unit.
    latency : the launch, or launches, of this run; ``None`` when latency was not measured.
    baseline : the baseline, or why there is none as the end of a sentence; ``None`` for none accepted.
    """
    note = baseline.note if isinstance(baseline, Baseline) else ""
    verdicts = [*_increases(limits, latency, baseline)]
    if limits.max_drop_increase is not None:
        verdicts.append(_drop_increase(limits.max_drop_increase, accuracy, baseline))
    for verdict in verdicts:
        yield replace(verdict, reason=f"{verdict.reason}; {note}") if note else verdict


def _increases(limits: Limits, latency: LatencyResult | None, baseline: Baseline | str | None) -> Iterator[Verdict]:
    """Yield the verdicts on `max_slowdown` and `max_p50_increase`."""
    if limits.max_slowdown is not None:
        verdict = _latency("max_slowdown", limits.max_slowdown, latency, baseline)
        if limits.max_p50_increase is None and latency is not None and isinstance(baseline, Baseline):
            verdict = _add_absolute(verdict, latency, baseline)
        yield verdict
    if limits.max_p50_increase is not None:
        yield _latency("max_p50_increase", limits.max_p50_increase, latency, baseline)


def increases_to_narrow(limits: Limits, latency: LatencyResult, baseline: Baseline | str | None) -> Iterator[Verdict]:
    """Yield those verdicts on `max_slowdown` and `max_p50_increase` of which more launches of today say much more."""
    if not isinstance(baseline, Baseline):
        return
    for verdict in _increases(limits, latency, baseline):
        increase = _increase(verdict.limit, latency, baseline)
        if increase is not None and increase[0].narrows_with(LAUNCH_LOOKS[-1] - 1):
            yield verdict


def _missing_baseline(limit: str, allowed: float, baseline: str | None) -> Verdict:
    why = "no record of this series was accepted" if baseline is None else baseline
    return mark_no_baseline(mark_unmeasured(limit, allowed, why), why)


def _latency(limit: str, allowed: float, latency: LatencyResult | None, baseline: Baseline | str | None) -> Verdict:
    if latency is None:
        return mark_unmeasured(limit, allowed, "latency measurement is off")
    if not isinstance(baseline, Baseline):
        return _missing_baseline(limit, allowed, baseline)
    increase = _increase(limit, latency, baseline)
    if increase is None:
        why = f"the baseline of {baseline.commit[:12]} was timed on another machine or in another way, or not at all"
        return _missing_baseline(limit, allowed, why)
    apart = find_null_distance(latency)
    change, found, words = increase
    observed, ends = percent(found.value), (percent(found.low), percent(found.high))
    if latency.reasons and apart is None:
        reason = f"the timing is not to be trusted: {'; '.join(latency.reasons)}"
        return Verdict(limit, allowed, observed, Status.INCONCLUSIVE, reason)
    counted = f" in {len(change.head)} launches" if len(change.head) > 1 else ""
    figure = f"{words}{counted} against {_count_launches(change.base)} of {baseline.commit[:12]}"
    verdict = judge_by_interval(limit, allowed, observed, ends, figure=figure, bound=f"{allowed!r} %")
    status = verdict.status
    if status is Status.FAIL and not found.knows_noise:
        status = Status.INCONCLUSIVE
    reason = verdict.reason if apart is None else describe_null(verdict.reason, apart)
    if status is Status.INCONCLUSIVE and apart is None:
        reason += f"; {_advise(change, allowed, baseline)}"
    return replace(verdict, status=status, reason=reason)


def _increase(
    limit: str, latency: LatencyResult, baseline: Baseline
) -> tuple[LaunchChange, LaunchDifference, str] | None:
    """Return the change that a limit is about, its difference, and both in words; ``None`` where a side has no launch.

    All are natural logarithms, of which more is slower. A null that is off widens the interval to either side.

    For `max_slowdown` each launch is divided by its own reference, which cancels the machine's state; the candidate's
    own time, for `max_p50_increase`, also rises where a reference slows down as well.
    """
    if limit == "max_slowdown":
        figure, sign, words = "speedup", -1.0, "slowdown {}"
        before, noise = baseline.launches, baseline.speedup_noise
    else:
        figure, sign, words = "candidate_p50_ms", 1.0, "p50 increase {} ({:.4g} -> {:.4g} ms)"
        before, noise = baseline.p50_launches, baseline.p50_noise
    now = (launch_of(latency, baseline.now), *latency.launches)
    days = days_of(launch.started_at for launch in (*before, *now))
    base, head = (
        tuple(replace(launch, value=sign * launch.value) for launch in logs_of(side, figure, days))
        for side in (before, now)
    )
    if not base or not head:
        return None
    old, new = (math.exp(statistics.median(launch.value for launch in side)) for side in (base, head))
    change = LaunchChange(base, head, update_noise(noise, head))
    exact, apart = change.difference(), find_null_distance(latency) or 0.0
    found = replace(exact, low=exact.low - apart, high=exact.high + apart)
    value, low, high = map(percent, (found.value, found.low, found.high))
    return change, found, words.format(f"{value:.2f} % [{low:.2f}, {high:.2f}]", old, new)


def _add_absolute(verdict: Verdict, latency: LatencyResult, baseline: Baseline) -> Verdict:
    """Add to a verdict on the ratio alone that the candidate itself became slower, if it did."""
    increase = _increase("max_p50_increase", latency, baseline)
    if verdict.observed is None or increase is None or increase[1].low <= 0.0:
        return verdict
    rose = f"the absolute time rose: {increase[2]}, which max_p50_increase would limit"
    return replace(verdict, reason=f"{verdict.reason}; {rose}")


def _count_launches(launches: Sequence[Launch]) -> str:
    days = len({launch.day for launch in launches})
    counted = "1 launch" if len(launches) == 1 else f"{len(launches)} launches"
    return f"{counted} on {days} days" if days > 1 else counted


def _advise(change: LaunchChange, allowed: float, baseline: Baseline) -> str:
    """Return what the reader can do about an interval that does not decide."""
    more = change.launches_needed(math.log1p(allowed / 100.0))
    if more is not None:
        launches = "1 more launch" if more == 1 else f"{more} more launches"
        together = len(change.head) + more
        option = "auto" if together <= LAUNCH_LOOKS[-1] else together
        return f"{launches} of today would decide: --quant-launches {option}"
    against = "see the section quant against" if baseline.is_paired else "compare both commits now: --quant-against"
    if len({launch.day for launch in (*change.base, *change.head)}) == 1:
        return f"more launches of today are not enough beside {_count_launches(change.base)} of the base; {against}"
    found = change.difference()
    if not found.knows_noise:
        missing = math.ceil(FEWEST_FREEDOM - found.freedom)
        return (
            "too little is known of how days differ on this machine, and launches of one day cannot show it: run the "
            f"base on {missing} more days, or {against}"
        )
    return f"more launches today cannot decide this: the baseline varies too much from day to day; {against}"


def _drop_increase(allowed: float, accuracy: AccuracyResult, baseline: Baseline | str | None) -> Verdict:
    if accuracy.drop is None:
        return mark_unmeasured("max_drop_increase", allowed, accuracy.note or "no metric could be computed")
    if not isinstance(baseline, Baseline):
        return _missing_baseline("max_drop_increase", allowed, baseline)
    if baseline.drop is None:
        why = baseline.no_drop or f"the baseline of {baseline.commit[:12]} has no drop"
        return _missing_baseline("max_drop_increase", allowed, why)
    increase = accuracy.drop - baseline.drop
    if not accuracy.varies:
        return judge_by_value("max_drop_increase", allowed, increase, " pp")
    if accuracy.drop_ci is None:
        return mark_unmeasured("max_drop_increase", allowed, f"the drop has no interval with {accuracy.n} samples")
    old = (baseline.accuracy and baseline.accuracy.drop_ci) or Interval(baseline.drop, baseline.drop)
    # Ends of a difference of two independent estimates (Zou and Donner 2008, Statistics in Medicine 27, 1693-1702).
    low = increase - math.hypot(accuracy.drop - accuracy.drop_ci.low, old.high - baseline.drop)
    high = increase + math.hypot(accuracy.drop_ci.high - accuracy.drop, baseline.drop - old.low)
    figure = f"the {accuracy.confidence:.0%} interval of the increase [{low:.4g}, {high:.4g}]"
    given = "max_drop_increase", allowed, increase, (low, high)
    verdict = judge_by_interval(*given, figure=figure, bound=repr(allowed))
    return allow_for_run_noise(verdict, accuracy, low)
