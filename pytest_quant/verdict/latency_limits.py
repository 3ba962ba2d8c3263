"""Limits on latency. Latency is never a fact: every limit is judged on an interval.

The interval is that of a test which holds over all looks at the rounds, so that a verdict is never better than what is
printed. A FAIL stands only when a second measurement in fresh sessions agrees. Beside a null that is off each interval
is wider by as much; numbers with any other reason against them decide nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from pytest_quant.result import NULL_OFF, LatencyResult, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.stats.ratio import fewest_rounds, runs_needed
from pytest_quant.verdict.rules import judge_by_interval, mark_unmeasured


def latency_verdicts(limits: Limits, latency: LatencyResult | None, latency_off: str = "") -> Iterator[Verdict]:
    """Yield one verdict for each percentile of `max_latency_ms`, each limit on tokens, and one for `min_speedup`.

    Parameters
    ----------
    limits : those of the check.
    latency : the measurement; ``None`` when latency was not measured.
    latency_off : reason why it was not, for the reader; empty gives a general one.
    """
    if latency is not None and (apart := find_null_distance(latency)) is not None:
        for verdict in latency_verdicts(limits, _widen_by_null(latency)):
            yield verdict if verdict.observed is None else replace(verdict, reason=describe_null(verdict.reason, apart))
        return
    for name, allowed, judge in _judges(limits):
        if latency is None:
            yield mark_unmeasured(name, allowed, latency_off or "latency measurement is off")
        elif latency.over is not None and name in OF_ALL_LAUNCHES:
            yield judge(latency)
        else:
            yield _confirm(judge, latency)


OF_ALL_LAUNCHES = ("min_speedup", "max_latency_ms")
"""Limits that all launches decide together, where there are several; others are judged on the first."""

_Judge: TypeAlias = Callable[[LatencyResult], Verdict]


def _judges(limits: Limits) -> Iterator[tuple[str, float, _Judge]]:
    """Yield each limit that is set: its name, what it allows, and what judges it."""
    for percentile, allowed in limits.max_latency_ms:
        name = "max_latency_ms" if percentile == 50 else f"max_latency_ms[p{percentile:g}]"
        yield name, allowed, partial(_percentile, name, percentile, allowed)
    for name, allowed in limits.token_limits:
        yield f"max_{name}_ms", allowed, partial(_token_time, name, allowed)
    if limits.min_speedup is not None:
        yield "min_speedup", limits.min_speedup, partial(_speedup, limits.min_speedup)


def find_null_distance(latency: LatencyResult) -> float | None:
    """Return how far the sessions of an off null may lie apart, as a logarithm; ``None`` if that decides nothing.

    A null that is not off is no reason to widen, and too few rounds make the numbers worthless.
    """
    if not latency.reasons or latency.rounds < fewest_rounds(latency.confidence):
        return None
    return max(math.log(latency.null_ratio_ci.high), -math.log(latency.null_ratio_ci.low))


def describe_null(reason: str, apart: float) -> str:
    """Return `reason` with what an off null adds to the interval in it."""
    return f"{reason}; the interval is {100 * math.expm1(apart):.2g} % wider to either side, for {NULL_OFF}"


def _widen_by_null(latency: LatencyResult) -> LatencyResult:
    """Return a latency whose intervals are as much wider as its null is off, which then speaks no more against them."""
    apart = find_null_distance(latency)
    return latency if apart is None else replace(latency.wider(times=math.exp(apart)), reasons=())


def _confirm(judge: _Judge, latency: LatencyResult) -> Verdict:
    """Judge a limit; a FAIL stands only when the numbers are sound and the second measurement fails too."""
    verdict = judge(latency)
    if verdict.observed is None:
        return verdict
    if latency.reasons:
        return _open(verdict, f"the timing is not to be trusted: {'; '.join(latency.reasons)}")
    if verdict.status is not Status.FAIL or latency.repeat is None:
        return verdict
    repeat = _widen_by_null(latency.repeat)
    again = judge(repeat)
    if repeat.reasons:
        return _open(verdict, f"the second measurement is not to be trusted: {'; '.join(repeat.reasons)}")
    if again.status is Status.FAIL:
        return verdict
    same = repeat.confidence == latency.confidence
    level = "" if same else f" (its interval is of {100 * repeat.confidence:g} %)"
    return _open(verdict, f"{verdict.reason}, but a second measurement disagrees{level}: {again.reason}")


def _open(verdict: Verdict, reason: str) -> Verdict:
    return replace(verdict, status=Status.INCONCLUSIVE, reason=reason)


def _speedup(allowed: float, latency: LatencyResult) -> Verdict:
    if latency.over is None:
        against = "" if latency.reference_precision == "fp32" else f" against {latency.reference_precision}"
        speedup, span = latency.speedup, latency.speedup_ci
        counted = f"{against} over {latency.rounds} rounds{_clock(latency)}"
    else:
        speedup, span = latency.over.speedup, latency.over.speedup_ci
        counted = f" over {latency.over.launches} launches"
    figure = f"speedup x{speedup:.3f} [{span.low:.3f}, {span.high:.3f}]{counted}"
    return judge_by_interval("min_speedup", allowed, speedup, span, figure=figure, bound=f"x{allowed!r}")


def _clock(latency: LatencyResult) -> str:
    return "" if latency.clock == "host" else f" by the {latency.clock}'s clock"


def _percentile(name: str, percentile: float, allowed: float, latency: LatencyResult) -> Verdict:
    words, over = f"{allowed!r} ms", latency.over
    if over is not None and percentile == 50:
        span = over.candidate_p50_ci_ms
        figure = f"p50 [{span.low:.4g}, {span.high:.4g}] ms over {over.launches} launches"
        return judge_by_interval(name, allowed, over.candidate_p50_ms, span, figure=figure, bound=words)
    bound = latency.bound_of(percentile)
    low, high = (None, None) if bound is None else (bound.low_ms, bound.high_ms)
    observed = getattr(latency, f"candidate_p{percentile:g}_ms", high)
    if high is None and not (low is not None and low > allowed):
        return mark_unmeasured(name, allowed, _explain_too_few(percentile, latency))
    if low is None or high is None:
        reach = f"at most {high:.4g}" if low is None else f"at least {low:.4g}"
    else:
        reach = f"[{low:.4g}, {high:.4g}]"
    figure = f"p{percentile:g} {reach} ms{_clock(latency)}"
    observed = low if observed is None else observed
    return judge_by_interval(name, allowed, observed, (low, high), figure=figure, bound=words)


def _token_time(name: str, allowed: float, latency: LatencyResult) -> Verdict:
    limit, token = f"max_{name}_ms", latency.token_time(name)
    if token is None or token.candidate_ci_ms is None:
        why = "no tokens were timed; give them by Model.from_callable(fn, streams=True)"
        return mark_unmeasured(limit, allowed, why)
    low, high = token.candidate_ci_ms
    figure, bound = f"median [{low:.4g}, {high:.4g}] ms", f"{allowed!r} ms"
    return judge_by_interval(limit, allowed, token.candidate_ms, (low, high), figure=figure, bound=bound)


def _explain_too_few(percentile: float, latency: LatencyResult) -> str:
    """Say how many rounds bound a percentile: the runs of one may share one burst of load."""
    there, needed = len(latency.candidate.runs_ns), runs_needed(percentile, latency.confidence)
    had = f"there was time for {there}: --quant-max-time gives more"
    return f"p{percentile:g} takes {needed} rounds to bound, and {had}"
