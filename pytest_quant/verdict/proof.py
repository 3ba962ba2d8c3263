"""Limits on what ran, and on what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_quant.result import Coverage, Resources, Status, Verdict
from pytest_quant.spec import LIMITS, Limits, limits_on
from pytest_quant.verdict.rules import at_least, judged, not_measured

_OF_PLAN = ("max_size_mb", "max_build_s")
"""Limits on the file of an engine and on how it was made."""

_LIMIT = "min_coverage"

_PARTIAL = ("dynamic", "weight-only")
"""Schemes that leave whole kinds of operators in float."""


def coverage_verdicts(limits: Limits, coverage: Coverage, scheme: str | None) -> Iterator[Verdict]:
    """Yield the verdict on coverage; a limit of 0 asks for anything above 0.

    What the mark sets is judged on all eligible compute, the default of a `scheme` that leaves whole kinds of
    operators in float on what it can quantize. A scheme that can quantize nothing of the model is a FAIL.

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
    if coverage.pct == 0.0:
        reason = f"no {coverage.unit} ran in the asked precision on {coverage.provider}"
        return Verdict(_LIMIT, allowed, 0.0, Status.FAIL, reason)
    return at_least(_LIMIT, allowed, coverage.pct, f"% of {coverage.unit}")


def _on_scheme(allowed: float, coverage: Coverage) -> Verdict:
    left = ", ".join(f"{name} ({share:.4g} %)" for name, share in coverage.not_quantizable.items())
    if coverage.scheme_pct is None and coverage.not_quantizable:
        reason = f"the scheme can quantize nothing of this model; of all {coverage.unit} it leaves {left} in float"
        return Verdict(_LIMIT, allowed, 0.0, Status.FAIL, reason)
    if coverage.scheme_pct is None or coverage.plan_of:
        return _on_all(allowed, coverage)
    found = at_least(_LIMIT, allowed, coverage.scheme_pct, " %")
    reason = f"{found.reason} of the {coverage.unit} that the scheme can quantize"
    return replace(found, reason=f"{reason}; of all {coverage.unit} it cannot quantize {left}" if left else reason)


def _nothing_seen(coverage: Coverage) -> str:
    if coverage.opaque_nodes:
        return f"all compute is in {coverage.opaque_nodes} fused nodes that cannot be seen into"
    return "the graph has no node that could be quantized"


def resource_verdicts(limits: Limits, resources: Resources) -> Iterator[Verdict]:
    """Yield one verdict for each limit on size, memory, build time and energy."""
    for name in limits_on("resources"):
        limit, allowed = LIMITS[name], getattr(limits, name)
        if allowed is None:
            continue
        observed = getattr(resources, limit.attribute)
        if observed is None and name in _OF_PLAN and resources.plan_of:
            yield not_measured(name, allowed, _other_product(resources.plan_of))
        else:
            yield judged(limit, allowed, observed)


def _other_product(name: str) -> str:
    return f"plan of another product ({name})"
