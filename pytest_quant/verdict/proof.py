"""Limits on what ran, and on what it cost."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_quant.result import Coverage, Resources, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.rules import at_least, at_most, not_measured


def coverage_verdicts(limits: Limits, coverage: Coverage) -> Iterator[Verdict]:
    """Yield the verdict on `min_coverage`; a limit of 0 asks for anything above 0."""
    allowed = limits.min_coverage
    if allowed is None:
        return
    if coverage.pct is None:
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
            yield not_measured(limit, allowed, "this backend or machine does not tell")
        else:
            yield at_most(limit, allowed, observed, unit)
