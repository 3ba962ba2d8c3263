"""A series as the history has it without its records: what it is, the figures of its checks, and how they changed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from pytest_quant.history.rows import decode_json, encode, identity_of, to_utc, version_of
from pytest_quant.record import Record, Run
from pytest_quant.record.figures import PLACES, figures
from pytest_quant.result import Status


@dataclass(frozen=True, slots=True)
class CheckSummary:
    """The figures of one check that are listed, searched for changes and drawn; ``None`` for those not measured.

    A field more is a figure more of every history: only `run_id` to `status` are columns of its tables.

    Attributes
    ----------
    started_at : start of its run, UTC, ISO 8601.
    series : key of its series, see `pytest_quant.spec.SeriesKey`.
    version, identity : see `pytest_quant.history.rows`.
    metric, unit, better : `better` is ``higher`` or ``lower``.
    n : samples compared.
    reference, candidate, drop : in `unit`; drop > 0 is worse.
    agreement_pct, coverage_pct : 0..100.
    speedup : reference / candidate; > 1 is faster.
    size_mb : of the candidate, in 10^6 bytes.
    speedup_ci_low, speedup_ci_high, drop_ci_low, drop_ci_high : intervals of `speedup` and `drop`.
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
    speedup_ci_low: float | None = None
    speedup_ci_high: float | None = None
    p50_low_ms: float | None = None
    p50_high_ms: float | None = None
    drop_ci_low: float | None = None
    drop_ci_high: float | None = None

    @classmethod
    def from_record(cls, run: Run, record: Record) -> CheckSummary:
        """Return the summary of a record of a run."""
        p50 = record.latency.bound_of(50.0) if record.latency else None
        values: dict[str, Any] = figures(record, _RECORDED)
        values |= {name: getattr(run, name) for name in ("commit", "branch", "dirty")}
        values |= {name: getattr(record, name) for name in ("series", "isa", "status")}
        return cls(
            run_id=run.id,
            started_at=to_utc(run.started_at),
            version=version_of(record),
            identity=identity_of(run, record),
            p50_low_ms=p50.low_ms if p50 else None,
            p50_high_ms=p50.high_ms if p50 else None,
            **values,
        )

    @property
    def figures(self) -> str:
        """The JSON of all that is no column of the history's tables, without what was not measured."""
        return encode({name: value for name in FIGURES if (value := getattr(self, name)) is not None})


_COLUMNS = ("run_id", "started_at", "commit", "branch", "dirty", "series", "status")
FIGURES = tuple(field.name for field in fields(CheckSummary) if field.name not in _COLUMNS)
_RECORDED = tuple(name for name in FIGURES if name in PLACES)


def read_summary(run_id: str, status: str, figures: str, **columns: Any) -> CheckSummary:
    """Return the summary with these columns, see `CheckSummary.figures`. Raises `HistoryError` when damaged."""

    def read(found: Any) -> CheckSummary:
        return CheckSummary(run_id, status=Status(status), **columns, **found)

    return decode_json(read, figures, f"a check of run {run_id}")


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """One series, and what the history has of it.

    Attributes
    ----------
    key : see `SeriesKey`.
    n_points : number of its checks in the history.
    last_started_at : start of the last run with one of them, UTC, ISO 8601.
    """

    key: str
    n_points: int
    last_started_at: str


CONFIDENT_POINTS = 5
"""With fewer commits after it a change is only probable."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of level between two commits with records.

    Attributes
    ----------
    quantity : ``score`` of the candidate, ``speedup`` over the reference, or ``latency`` where there is no speedup.
    last_good, first_bad : the last commit of the old level and the first of the new one, also where the change is an
        improvement; its cause is a commit after the first, up to and including the second.
    before, after : medians of the levels, in `unit`.
    size : percent of `before` for speedup and latency, else the difference in `unit`.
    improved : the change is for the better; ``None`` when the direction of the metric is not known.
    confidence : 1 - p when it was told, p adjusted for the looks, and the series looked at together; 1 for a score that
        repeats exactly before and after.
    probable : fewer than five commits confirm it yet.
    commits_after : number of commits with records from `first_bad` on.
    machine : identity of the machine for speed, instruction set for a score.
    """

    series: str
    quantity: str
    unit: str
    last_good: str
    first_bad: str
    first_bad_at: str
    before: float
    after: float
    size: float
    improved: bool | None
    confidence: float
    probable: bool
    commits_after: int
    machine: str
