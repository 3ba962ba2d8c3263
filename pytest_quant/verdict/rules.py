"""One figure compared with one limit, in the direction that the limit's row names; coverage and resources so judged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from pytest_quant.result import Coverage, Interval, Resources, Status, Verdict
from pytest_quant.spec import LIMITS, Limit, Limits, limits_on

_REL_TOL = 1e-9
"""A drop of 100 * (b - c) / n carries rounding of a few ulps; a limit hit exactly must pass."""


_OF_PLAN = ("max_size_mb", "max_build_s")
"""Limits on the file of an engine and on how it was made."""

_LIMIT = "min_coverage"

_PARTIAL = ("dynamic", "weight-only")
"""Schemes that leave whole kinds of operators in float."""

_LEAST_OF_ALL_PCT = 5
"""Of all multiply-accumulates: with fewer, all that such a scheme can quantize is next to nothing."""


def written(limit: float) -> str:
    """Return a limit as its mark has it: 0.9999999 is not 1, and 1 is 1.0 only where the mark says so."""
    return repr(limit)


def apart(observed: float, allowed: float, digits: int = 6) -> str:
    """Return a figure as text that lies on the same side of the limit as the figure itself.

    Parameters
    ----------
    observed, allowed : the figure and its limit, in one unit.
    digits : significant digits to begin with; more are used where the text would equal or pass the limit.
    """
    texts = (f"{observed:.{more}g}" for more in range(digits, 17))
    sides = (observed > allowed, observed < allowed)
    return next((text for text in texts if (float(text) > allowed, float(text) < allowed) == sides), repr(observed))


def not_measured(limit: str, allowed: float, why: str) -> Verdict:
    """Return INCONCLUSIVE for a limit whose figure is not known.

    Parameters
    ----------
    limit : name of the limit.
    allowed : its value.
    why : reason why there is no figure, for the reader.
    """
    return Verdict(limit, allowed, None, Status.INCONCLUSIVE, f"not measured: {why}")


def at_most(limit: str, allowed: float, observed: float, unit: str) -> Verdict:
    """Return PASS when `observed` <= `allowed`, up to rounding, else FAIL.

    Parameters
    ----------
    limit : name of the limit.
    allowed, observed : the limit and the figure, in one unit.
    unit : text to append to both in the reason, with its space.
    """
    if observed <= allowed or math.isclose(observed, allowed, rel_tol=_REL_TOL, abs_tol=_REL_TOL):
        reason = f"{observed:.6g}{unit} is within {written(allowed)}{unit}"
        return Verdict(limit, allowed, observed, Status.PASS, reason)
    reason = f"{apart(observed, allowed)}{unit} is above {written(allowed)}{unit}"
    return Verdict(limit, allowed, observed, Status.FAIL, reason)


def at_least(limit: str, allowed: float, observed: float, unit: str) -> Verdict:
    """Return PASS when `observed` >= `allowed`, up to rounding, else FAIL; parameters as in `at_most`."""
    if observed >= allowed or math.isclose(observed, allowed, rel_tol=_REL_TOL, abs_tol=_REL_TOL):
        reason = f"{observed:.6g}{unit} reaches {written(allowed)}{unit}"
        return Verdict(limit, allowed, observed, Status.PASS, reason)
    reason = f"{apart(observed, allowed)}{unit} is below {written(allowed)}{unit}"
    return Verdict(limit, allowed, observed, Status.FAIL, reason)


def judged(limit: Limit, allowed: float, observed: float | None) -> Verdict:
    """Return the verdict on one figure.

    Parameters
    ----------
    limit : the row of the table of limits, which names direction and unit.
    allowed : value of the limit.
    observed : the figure; ``None`` when it was not measured, which is INCONCLUSIVE.
    """
    if observed is None:
        return not_measured(limit.name, allowed, limit.missing)
    return compared(limit, limit.name, allowed, observed)


def compared(limit: Limit, name: str, allowed: float, observed: float) -> Verdict:
    """Return PASS or FAIL in the direction of the limit's row.

    Parameters
    ----------
    limit : the row of the table of limits.
    name : name of the limit in the verdict, with the output where the limit is for one.
    allowed, observed : the limit and the figure, in the row's unit.
    """
    compare = at_most if limit.is_maximum else at_least
    return compare(name, allowed, observed, limit.suffix)


def coverage_verdicts(limits: Limits, coverage: Coverage, scheme: str | None) -> Iterator[Verdict]:
    """Yield the verdict on coverage; a limit of 0 asks for anything above 0.

    What the mark sets is judged on all eligible compute, the default of a `scheme` that leaves whole kinds of
    operators in float on what it can quantize, and at least 5 % of all MACs. A scheme that can quantize nothing of the
    model is a FAIL.

    Parameters
    ----------
    limits : those of the check.
    coverage : share of the eligible compute, in percent, as read back from the runtime.
    scheme : of the candidate; ``None`` for a float precision.
    """
    default = limits.default_min_coverage
    if limits.min_coverage is not None:
        yield _on_all(limits.min_coverage, coverage)
    elif default is not None:
        found = _on_scheme(default, coverage) if scheme in _PARTIAL else _on_all(default, coverage)
        yield replace(found, implicit=True)


def _on_all(allowed: float, coverage: Coverage) -> Verdict:
    if coverage.plan_of and coverage.pct is not None:
        there = f"; {coverage.pct:.6g} % of {coverage.unit} there"
        return not_measured(_LIMIT, allowed, _other_product(coverage.plan_of) + there)
    if coverage.pct is None:
        return not_measured(_LIMIT, allowed, _nothing_seen(coverage))
    if coverage.most_pct == 0.0:
        reason = f"no {coverage.unit} ran in the asked precision on {coverage.provider}"
        return Verdict(_LIMIT, allowed, 0.0, Status.FAIL, reason)
    return _bounded(allowed, coverage.pct, coverage.high_pct, f"% of {coverage.unit}", coverage)


def _bounded(allowed: float, low: float, high: float | None, unit: str, coverage: Coverage, of: str = "") -> Verdict:
    """Judge a share that is `low` at least and `high` at most; ``None`` is a share that is known.

    Parameters
    ----------
    unit : text to append to each figure.
    of : text to append after all figures.
    """
    least = at_least(_LIMIT, allowed, low, unit)
    if high is None or (least.status is Status.PASS and low > 0.0):
        return replace(least, reason=least.reason + of)
    hidden = f"{(coverage.high_pct or 0.0) - (coverage.pct or 0.0):.4g} %"
    if at_least(_LIMIT, allowed, high, unit).status is Status.FAIL:
        most = f"and {apart(high, allowed, 4)} % with all of the {hidden} that cannot be seen into"
        return replace(least, reason=f"{least.reason}{of}, {most}")
    around = f"{low:.4g} to {high:.4g}{unit}, around {written(allowed)}{unit}{of}"
    if of:
        hidden += f" of all {coverage.unit}"
    return Verdict(_LIMIT, allowed, low, Status.INCONCLUSIVE, f"{around}: {hidden} cannot be seen into")


def _on_scheme(allowed: float, coverage: Coverage) -> Verdict:
    left = ", ".join(f"{name} ({apart(share, 100.0, 4)} %)" for name, share in coverage.not_quantizable.items())
    if coverage.scheme_pct is None and coverage.not_quantizable:
        reason = f"the scheme can quantize nothing of this model; of all {coverage.unit} it leaves {left} in float"
        return Verdict(_LIMIT, allowed, 0.0, Status.FAIL, reason)
    if coverage.scheme_pct is None or coverage.plan_of:
        return _on_all(allowed, coverage)
    within = 100.0 - sum(coverage.not_quantizable.values())
    high = None if coverage.high_pct is None else 100.0 * coverage.high_pct / within
    of = f" of the {coverage.unit} that the scheme can quantize"
    found = _bounded(allowed, coverage.scheme_pct, high, " %", coverage, of)
    if found.status is not Status.FAIL and coverage.unit == "MACs":
        of_all = _bounded(_LEAST_OF_ALL_PCT, coverage.pct or 0.0, coverage.high_pct, " %", coverage, " of all MACs")
        found = found if of_all.status is Status.PASS else of_all
    reason = f"{found.reason}; of all {coverage.unit} it cannot quantize {left}"
    return replace(found, reason=reason) if left else found


def _nothing_seen(coverage: Coverage) -> str:
    if coverage.opaque_nodes:
        return f"all compute is in {coverage.opaque_nodes} nodes that cannot be seen into"
    return "the graph has no node that could be quantized"


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
        if observed is None and name in _OF_PLAN and resources.plan_of:
            yield not_measured(name, allowed, _other_product(resources.plan_of))
        elif observed is None and limit.interval and latency_off:
            yield not_measured(name, allowed, latency_off)
        elif observed is not None and limit.interval:
            yield _on_interval(limit, allowed, observed, getattr(resources, limit.interval))
        else:
            yield judged(limit, allowed, observed)


def _on_interval(limit: Limit, allowed: float, observed: float, span: Interval | None) -> Verdict:
    """Judge an upper limit on a figure that is never a fact: INCONCLUSIVE where its interval encloses the limit."""
    if span is None:
        once = apart(observed, allowed, 4)
        status, reason = Status.INCONCLUSIVE, f"{once}{limit.suffix} was measured once, which gives no interval"
    else:
        value, low, high = (apart(one, allowed, 4) for one in (observed, span.low, span.high))
        shown = f"{value} [{low}, {high}]{limit.suffix}"
        held = f"{written(allowed)}{limit.suffix}"
        if span.high <= allowed:
            status, reason = Status.PASS, f"{shown} lies within {held}"
        elif span.low > allowed:
            status, reason = Status.FAIL, f"{shown} lies above {held}"
        else:
            status, reason = Status.INCONCLUSIVE, f"{shown} encloses {held}"
    return Verdict(limit.name, allowed, observed, status, reason)


def _other_product(name: str) -> str:
    return f"plan of another product ({name})"
