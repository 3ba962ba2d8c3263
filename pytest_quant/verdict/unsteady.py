"""Verdicts on engines that differ from themselves: what that difference could flip is open.

One batch that was run twice tells how far one engine's runs lie apart, and a second evaluation how far the scores do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_quant.result import AccuracyResult, SelfDifference, Status, Verdict

_SPREADS = 3.0
"""A limit must lie so many times the difference of two evaluations away from them."""


def repeated(first: Iterable[Verdict], again: Iterable[Verdict]) -> Iterator[Verdict]:
    """Yield the verdicts of one evaluation that a second one, of engines that differ from themselves, cannot flip."""
    others = {verdict.limit: verdict for verdict in again}
    for verdict in first:
        other = others.get(verdict.limit)
        if other is not None and not _could_flip(verdict, other):
            yield verdict
            continue
        shown = "nothing" if other is None or other.observed is None else f"{other.observed:.6g}"
        reason = (
            f"{verdict.reason}, but a second evaluation of the same data gives {shown}: an engine is nondeterministic"
        )
        yield replace(verdict, status=Status.INCONCLUSIVE, reason=reason)


def _could_flip(one: Verdict, other: Verdict) -> bool:
    if one.status is not other.status:
        return True
    if one.observed is None or other.observed is None or one.allowed is None:
        return one.observed != other.observed
    spread = abs(one.observed - other.observed)
    return spread > 0.0 and min(abs(one.observed - one.allowed), abs(other.observed - one.allowed)) <= _SPREADS * spread


_WHOLE_PCT = 100.0

Span = tuple[float, float]


def within_itself(
    verdicts: Iterable[Verdict], accuracy: AccuracyResult, unsteady: Sequence[SelfDifference]
) -> Iterator[Verdict]:
    """Yield the verdicts on accuracy that the differences of engines from themselves cannot flip; the others are open.

    Parameters
    ----------
    verdicts : those on accuracy.
    accuracy : what they were judged on.
    unsteady : the engines that differ from themselves; none leaves every verdict as it is.
    """
    for verdict in verdicts:
        name = verdict.limit.partition("[")[0]
        span_of = _SPANS.get(name)
        if not unsteady or span_of is None or verdict.observed is None or verdict.allowed is None:
            yield verdict
            continue
        low, high = span_of(verdict.observed, accuracy, unsteady)
        if not low <= verdict.allowed <= high or low == high or verdict.status is Status.INCONCLUSIVE:
            yield verdict
            continue
        names = " and ".join(dict.fromkeys(one.engine for one in unsteady))
        reason = (
            f"{verdict.reason}, but {names} differ{'s' if len(unsteady) == 1 else ''} from run to run, which alone "
        )
        reason += f"puts it between {low:.4g} and {high:.4g}"
        yield replace(verdict, status=Status.INCONCLUSIVE, reason=reason)


def _of_agreement(observed: float, _: AccuracyResult, unsteady: Sequence[SelfDifference]) -> Span:
    """Every sample whose class changes from run to run may agree or not."""
    changing = sum(one.top1_pct or 0.0 for one in unsteady)
    return observed - changing, observed + changing


def _of_score(observed: float, accuracy: AccuracyResult, unsteady: Sequence[SelfDifference]) -> Span:
    """Add three standard deviations of a score of `n` samples of which that share is right by chance, in percent."""
    changing = sum(one.top1_pct or 0.0 for one in unsteady) / _WHOLE_PCT
    if accuracy.unit != "%" or accuracy.n == 0:
        return observed, observed
    points = min(_WHOLE_PCT * changing, _SPREADS * _WHOLE_PCT * math.sqrt(changing / accuracy.n))
    return observed - points, observed + points


def _of_ratio(observed: float, accuracy: AccuracyResult, unsteady: Sequence[SelfDifference]) -> Span:
    low, high = _of_score(0.0, accuracy, unsteady)
    under = accuracy.reference if accuracy.better == "higher" else accuracy.candidate
    return (observed + low / under, observed + high / under) if under else (observed, observed)


def _of_largest_error(observed: float, _: AccuracyResult, unsteady: Sequence[SelfDifference]) -> Span:
    apart = sum(one.max_abs for one in unsteady)
    return max(0.0, observed - apart), observed + apart


def _of_sqnr(observed: float, _: AccuracyResult, unsteady: Sequence[SelfDifference]) -> Span:
    """The noise adds to the error or hides a part of it: both are shares of the norm of the output."""
    low, high = _errors(10.0 ** (-observed / 20.0), unsteady)
    return -20.0 * math.log10(high) if high else math.inf, -20.0 * math.log10(low) if low else math.inf


def _of_cosine(observed: float, _: AccuracyResult, unsteady: Sequence[SelfDifference]) -> Span:
    """An error of the share e of the norm, across the output, leaves a cosine of 1 - e^2 / 2."""
    low, high = _errors(math.sqrt(max(0.0, 2.0 * (1.0 - observed))), unsteady)
    return max(-1.0, 1.0 - high**2 / 2.0), 1.0 - low**2 / 2.0


def _errors(error: float, unsteady: Sequence[SelfDifference]) -> Span:
    apart = sum(one.relative for one in unsteady)
    return max(0.0, error - apart), error + apart


_SPANS: Mapping[str, Callable[[float, AccuracyResult, Sequence[SelfDifference]], Span]] = {
    "max_drop": _of_score,
    "max_drop_increase": _of_score,
    "min_accuracy": _of_score,
    "min_ratio": _of_ratio,
    "min_agreement": _of_agreement,
    "min_sqnr_db": _of_sqnr,
    "min_cosine": _of_cosine,
    "max_abs_error": _of_largest_error,
}
"""The range that each limit's figure could have in another run."""
