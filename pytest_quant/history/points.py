"""The summary of one check, read from columns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """One check of a series, without its record.

    Attributes
    ----------
    version : what is measured, see `pytest_quant.history.series`; other versions are shown, never compared.
    identity : the machine; latency is compared within one.
    isa : instruction set of the machine.
    reference, candidate, drop : of the task metric, in `unit`; ``None`` where not measured, as every figure.
    """

    run_id: str
    started_at: str
    commit: str | None
    branch: str | None
    dirty: bool
    series: str
    version: str
    identity: str
    isa: str
    status: str
    metric: str | None
    unit: str | None
    better: str | None
    n: int | None
    reference: float | None
    candidate: float | None
    drop: float | None
    agreement_pct: float | None
    speedup: float | None
    reference_p50_ms: float | None
    candidate_p50_ms: float | None
    coverage_pct: float | None
    size_mb: float | None
