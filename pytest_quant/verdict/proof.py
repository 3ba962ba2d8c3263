"""Limits on what ran, and on what it cost."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_quant.result import Coverage, Resources, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.rules import at_least, at_most, not_measured

_OF_PLAN = ("max_size_mb", "max_build_s")
"""Limits on the file of an engine and on how it was made."""


def coverage_verdicts(limits: Limits, coverage: Coverage) -> Iterator[Verdict]:
    """Yield the verdict on `min_coverage`; a limit of 0 asks for anything above 0."""
    allowed = limits.min_coverage
    if allowed is None:
        return
    if coverage.plan_of and coverage.pct is not None:
        there = f"; {coverage.pct:.6g} % of {coverage.unit} there"
        yield not_measured("min_coverage", allowed, _other_product(coverage.plan_of) + there)
    elif coverage.pct is None:
        yield not_measured("min_coverage", allowed, "the graph has no node that could be quantized")
    elif coverage.pct == 0.0:
        reason = f"no {coverage.unit} ran in the asked precision on {coverage.provider}"
        yield Verdict("min_coverage", allowed, 0.0, Status.FAIL, reason)
    else:
        yield at_least("min_coverage", allowed, coverage.pct, f"% of {coverage.unit}")


def resource_verdicts(limits: Limits, resources: Resources) -> Iterator[Verdict]:
    """Yield one verdict for each limit on size, memory, build time and energy."""
    rows = (
        ("max_size_mb", limits.max_size_mb, resources.size_mb, " MB"),
        ("max_memory_mb", limits.max_memory_mb, resources.peak_memory_mb, " MB"),
        ("max_build_s", limits.max_build_s, resources.build_s, " s"),
        ("max_energy_mj", limits.max_energy_mj, resources.energy_mj, " mJ"),
    )
    for limit, allowed, observed, unit in rows:
        if allowed is None:
            continue
        if observed is None:
            of_plan = limit in _OF_PLAN and resources.plan_of
            why = _other_product(resources.plan_of) if of_plan else "this backend or machine does not tell"
            yield not_measured(limit, allowed, why)
        else:
            yield at_most(limit, allowed, observed, unit)


def _other_product(name: str) -> str:
    return f"plan of another product ({name})"
