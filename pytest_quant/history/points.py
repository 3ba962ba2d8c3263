"""A series as the history has it without its records: what it is, and the figures of each of its checks."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_quant.result import Status


@dataclass(frozen=True, slots=True)
class Point:
    """The summary of one check; a figure is ``None`` when it was not measured.

    Attributes
    ----------
    started_at : start of its run, UTC, ISO 8601.
    series : key of its series, see `pytest_quant.record.series_key`.
    version, identity : see `pytest_quant.history.rows`.
    metric, unit, better : `better` is ``higher`` or ``lower``.
    n : samples compared.
    reference, candidate, drop : in `unit`; drop > 0 is worse.
    agreement_pct, coverage_pct : 0..100.
    speedup : reference / candidate; > 1 is faster.
    size_mb : of the candidate, in 10^6 bytes.
    speedup_low, speedup_high, drop_low, drop_high : intervals of `speedup` and `drop`. These and the next are also
        ``None`` for the oldest checks of a history that earlier versions of this package wrote, see
        `pytest_quant.history.schema`.
    p50_low_ms, p50_high_ms : interval of `candidate_p50_ms`; ``None`` for a side that too few runs tell.
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
    speedup_low: float | None = None
    speedup_high: float | None = None
    p50_low_ms: float | None = None
    p50_high_ms: float | None = None
    drop_low: float | None = None
    drop_high: float | None = None


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """One series.

    Attributes
    ----------
    nodeid : of the test, without the parameters that lists in the mark add.
    engine_id : of the candidate, ``ort-int8-static``.
    n_points : number of its checks in the history.
    last_started_at : start of the last run with one of them, UTC, ISO 8601.
    """

    key: str
    nodeid: str
    model: str
    engine_id: str
    metric: str | None
    n_points: int
    last_started_at: str
