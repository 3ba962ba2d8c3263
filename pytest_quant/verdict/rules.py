"""The two rules that compare one figure with one limit, by its value or by its interval; coverage and resources."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from pytest_quant.result import Coverage, Interval, Resources, Status, Verdict
from pytest_quant.spec import LIMITS, Limit, Limits, limits_on

_ROUNDING = 1e-9
"""A drop of 100 * (b - c) / n carries rounding of a few ulps; a limit hit exactly must pass."""


OUTPUTS = "outputs"
"""What a verdict on broken outputs has in place of a limit's name."""

_LIMIT = "min_coverage"


def format_apart(observed: float, allowed: float, digits: int = 6) -> str:
    """Return a figure as text that lies on the same side of the limit as the figure itself.

    Parameters
    ----------
    observed, allowed : the figure and its limit, in one unit.
    digits : significant digits to begin with; more are used where the text would equal or pass the limit.
    """
    texts = (f"{observed:.{more}g}" for more in range(digits, 17))
    sides = (observed > allowed, observed < allowed)
    return next((text for text in texts if (float(text) > allowed, float(text) < allowed) == sides), repr(observed))


def mark_unmeasured(limit: str, allowed: float, why: str) -> Verdict:
    """Return INCONCLUSIVE for a limit whose figure is not known.

    Parameters
    ----------
    limit : name of the limit.
    allowed : its value.
    why : reason why there is no figure, for the reader.
    """
    return Verdict(limit, allowed, None, Status.INCONCLUSIVE, f"not measured: {why}")


def withdraw(verdict: Verdict, doubt: str) -> Verdict:
    """Return a verdict with a reason against it as INCONCLUSIVE."""
    return replace(verdict, status=Status.INCONCLUSIVE, reason=f"{verdict.reason}, but {doubt}")


def withdraw_pass(verdict: Verdict, doubt: str) -> Verdict:
    """Return a PASS with a reason against it as INCONCLUSIVE, and any other verdict as it is."""
    return withdraw(verdict, doubt) if verdict.status is Status.PASS and doubt else verdict


def mark_no_baseline(verdict: Verdict, why: str) -> Verdict:
    """Return a verdict as NO_BASELINE: there is nothing to compare with, for the reason `why`."""
    how = 'accept a record of a commit that passes its other limits: pytest-quant accept --reason "..."'
    return replace(verdict, observed=None, status=Status.NO_BASELINE, reason=f"{why}; {how}")


_LEAST_SAMPLES = 100
"""Of a set that a limit without room is judged on."""


def explain_coarseness(n: int, weight: float | None, room: float, unit: str, wanted: int | None = None) -> str:
    """Return why a score over `n` samples, of which each weighs `weight`, carries no verdict; empty if it does.

    `room` is what the limit leaves; ``None`` is the weight of a sample in a score without bounds; `wanted` are the
    samples that the interval of the score needs, where that is known.
    """
    if weight is None or weight <= room or math.isclose(weight, room) or (room <= 0.0 and n >= _LEAST_SAMPLES):
        return ""
    enough = max(wanted or 0, math.ceil(n * weight / room - _ROUNDING) if room > 0.0 else _LEAST_SAMPLES)
    subject = "the only sample" if n == 1 else f"one of {n} samples"
    return f"{subject} weighs {weight:.4g}{unit}, more than the limit leaves; {enough} samples would do"


def drop_suffix(unit: str | None) -> str:
    """Return the unit of a drop, percentage points if that of its scores is percent, as text to append to a number."""
    return " pp" if unit == "%" else f" {unit or ''}".rstrip()


def judge_by_value(limit: str, allowed: float, observed: float, unit: str, *, is_least: bool | None = None) -> Verdict:
    """Return PASS when a figure that is a fact is within its limit, up to rounding, else FAIL.

    The limit is written as its mark has it: 0.9999999 is not 1, and 1 is 1.0 only if the mark says so.

    Parameters
    ----------
    limit : name of the limit.
    allowed, observed : the limit and the figure, in one unit.
    unit : text to append to both in the reason, with its space.
    is_least : whether it is a lower limit; ``None`` tells by the name, which then starts with ``min_`` or ``max_``.
    """
    is_least = limit.startswith("min_") if is_least is None else is_least
    holds = observed >= allowed if is_least else observed <= allowed
    if holds or math.isclose(observed, allowed, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
        status, figure, relation = Status.PASS, f"{observed:.6g}", "reaches" if is_least else "is within"
    else:
        status, figure, relation = Status.FAIL, format_apart(observed, allowed), "is below" if is_least else "is above"
    return Verdict(limit, allowed, observed, status, f"{figure}{unit} {relation} {allowed!r}{unit}")


def judge_by_interval(
    limit: str,
    allowed: float,
    observed: float | None,
    ends: tuple[float | None, float | None],
    *,
    figure: str,
    bound: str,
    if_open: str = "",
    is_least: bool | None = None,
) -> Verdict:
    """Judge a figure that is never a fact: INCONCLUSIVE if its interval encloses the limit.

    Parameters
    ----------
    limit : name of the limit.
    allowed, observed : the limit and the figure, in one unit.
    ends : low and high end of the figure's interval; ``None`` for an end that is not known.
    figure : the figure and its interval in words.
    bound : the limit in words.
    if_open : text to append to the reason where nothing is decided.
    is_least : whether it is a lower limit; ``None`` tells by the name, which then starts with ``min_``.
    """
    low, high = ends
    is_least = limit.startswith("min_") if is_least is None else is_least
    passes, fails = (low, high) if is_least else (high, low)
    if passes is not None and (passes >= allowed if is_least else passes <= allowed):
        status, relation = Status.PASS, "reaches" if is_least else "lies within"
    elif fails is not None and (fails < allowed if is_least else fails > allowed):
        status, relation = Status.FAIL, "lies below" if is_least else "lies above"
    else:
        status, relation, bound = Status.INCONCLUSIVE, "encloses", bound + if_open
    return Verdict(limit, allowed, observed, status, f"{figure} {relation} {bound}")


def coverage_verdicts(limits: Limits, coverage: Coverage) -> Iterator[Verdict]:
    """Yield the verdict on coverage; a limit of 0 asks for anything above 0.

    What the mark sets is judged on all eligible compute, the default on what the scheme can quantize where the backend
    tells that, and on at least 5 % of all MACs. A scheme that can quantize nothing of the model is a FAIL.

    Parameters
    ----------
    limits : those of the check.
    coverage : share of the eligible compute, in percent, as read back from the runtime.
    """
    default = limits.default_min_coverage
    if limits.min_coverage is not None:
        yield _judge_on_all(limits.min_coverage, coverage)
    elif default is not None:
        verdict = _judge_on_scheme(default, coverage) if coverage.not_quantizable else _judge_on_all(default, coverage)
        yield replace(verdict, implicit=True)


def _judge_on_all(allowed: float, coverage: Coverage) -> Verdict:
    if coverage.plan_of and coverage.pct is not None:
        there = f"; {coverage.pct:.6g} % of {coverage.unit} there"
        return mark_unmeasured(_LIMIT, allowed, _other_product(coverage.plan_of) + there)
    if coverage.pct is None:
        opaque = f"all compute is in {coverage.opaque_nodes} nodes that cannot be seen into"
        nothing = "the graph has no node that could be quantized"
        return mark_unmeasured(_LIMIT, allowed, opaque if coverage.opaque_nodes else nothing)
    if coverage.most_pct == 0.0:
        reason = f"no {coverage.unit} ran in the asked precision on {coverage.provider}"
        return Verdict(_LIMIT, allowed, 0.0, Status.FAIL, reason)
    return _judge_bounded(allowed, coverage.pct, coverage.high_pct, f"% of {coverage.unit}", coverage)


def _judge_bounded(
    allowed: float, low: float, high: float | None, unit: str, coverage: Coverage, of: str = ""
) -> Verdict:
    """Judge a share that is `low` at least and `high` at most; ``None`` is a share that is known.

    Parameters
    ----------
    unit : text to append to each figure.
    of : text to append after all figures.
    """
    least = judge_by_value(_LIMIT, allowed, low, unit)
    if high is None or (least.status is Status.PASS and low > 0.0):
        return replace(least, reason=least.reason + of)
    hidden = f"{(coverage.high_pct or 0.0) - (coverage.pct or 0.0):.4g} %"
    if judge_by_value(_LIMIT, allowed, high, unit).status is Status.FAIL:
        most = f"and {format_apart(high, allowed, 4)} % with all of the {hidden} that cannot be seen into"
        return replace(least, reason=f"{least.reason}{of}, {most}")
    around = f"{low:.4g} to {high:.4g}{unit}, around {allowed!r}{unit}{of}"
    if of:
        hidden += f" of all {coverage.unit}"
    return Verdict(_LIMIT, allowed, low, Status.INCONCLUSIVE, f"{around}: {hidden} cannot be seen into")


def _judge_on_scheme(allowed: float, coverage: Coverage) -> Verdict:
    left = ", ".join(f"{name} ({format_apart(share, 100.0, 4)} %)" for name, share in coverage.not_quantizable.items())
    if coverage.scheme_pct is None:
        reason = f"the scheme can quantize nothing of this model; of all {coverage.unit} it leaves {left} in float"
        return Verdict(_LIMIT, allowed, 0.0, Status.FAIL, reason)
    if coverage.plan_of:
        return _judge_on_all(allowed, coverage)
    within = 100.0 - sum(coverage.not_quantizable.values())
    high = None if coverage.high_pct is None else 100.0 * coverage.high_pct / within
    of = f" of the {coverage.unit} that the scheme can quantize"
    verdict = _judge_bounded(allowed, coverage.scheme_pct, high, " %", coverage, of)
    if verdict.status is not Status.FAIL and coverage.unit == "MACs":
        shares = coverage.pct or 0.0, coverage.high_pct
        # With fewer of them, all that such a scheme can quantize is next to nothing.
        of_all = _judge_bounded(5, *shares, " %", coverage, " of all MACs")
        verdict = verdict if of_all.status is Status.PASS else of_all
    return replace(verdict, reason=f"{verdict.reason}; of all {coverage.unit} it cannot quantize {left}")


def resource_verdicts(limits: Limits, resources: Resources, latency_off: str = "") -> Iterator[Verdict]:
    """Yield one verdict for each limit on size, memory, build time and energy.

    Parameters
    ----------
    limits : those of the check.
    resources : what the candidate takes.
    latency_off : reason why nothing was timed, and so no energy measured; empty when it was.
    """
    for name in limits_on("resources"):
        limit, allowed = LIMITS[name], getattr(limits, name)
        if allowed is None:
            continue
        observed = getattr(resources, limit.attribute)
        if observed is not None and limit.interval:
            yield _judge_on_interval(limit, allowed, observed, getattr(resources, limit.interval.partition(".")[2]))
        elif observed is not None:
            yield judge_by_value(name, allowed, observed, limit.suffix)
        elif name in ("max_size_mb", "max_build_s") and resources.plan_of:
            yield mark_unmeasured(name, allowed, _other_product(resources.plan_of))
        else:
            yield mark_unmeasured(name, allowed, (latency_off if limit.interval else "") or limit.missing)


def _judge_on_interval(limit: Limit, allowed: float, observed: float, span: Interval | None) -> Verdict:
    if span is None:
        reason = f"{format_apart(observed, allowed, 4)}{limit.suffix} was measured once, which gives no interval"
        return Verdict(limit.name, allowed, observed, Status.INCONCLUSIVE, reason)
    value, low, high = (format_apart(number, allowed, 4) for number in (observed, span.low, span.high))
    figure, bound = f"{value} [{low}, {high}]{limit.suffix}", f"{allowed!r}{limit.suffix}"
    return judge_by_interval(limit.name, allowed, observed, (span.low, span.high), figure=figure, bound=bound)


def _other_product(name: str) -> str:
    return f"plan of another product ({name})"
