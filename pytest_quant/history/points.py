"""The summary of one check, and of one series."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_quant.result import Status


@dataclass(frozen=True, slots=True)
class Point:
    """One check, once, without its details; a figure is ``None`` when it was not measured.

    Attributes
    ----------
    started_at : of its run, UTC, ISO 8601.
    series : key of its series, see `pytest_quant.record.series_key`.
    version, identity : see `pytest_quant.history.series`.
    metric, unit, better : `better` is ``higher`` or ``lower``.
    n : samples compared.
    reference, candidate, drop : in `unit`; drop > 0 is worse.
    agreement_pct, coverage_pct : 0..100.
    speedup : reference / candidate; > 1 is faster.
    size_mb : of the candidate, in 10^6 bytes.
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
    status: Status
    metric: str | None = None
    unit: str | None = None
    better: str | None = None
    n: int | None = None
    reference: float | None = None
    candidate: float | None = None
    drop: float | None = None
    agreement_pct: float | None = None
    speedup: float | None = None
    reference_p50_ms: float | None = None
    candidate_p50_ms: float | None = None
    coverage_pct: float | None = None
    size_mb: float | None = None


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """One series.

    Attributes
    ----------
    nodeid : the test, without what our own lists add to it.
    engine_id : of the candidate, ``ort-int8-static``.
    n_points : checks of it in the history.
    last_started_at : when the last run with one of them started, UTC, ISO 8601.
    """

    key: str
    nodeid: str
    model: str
    engine_id: str
    metric: str | None
    n_points: int
    last_started_at: str
