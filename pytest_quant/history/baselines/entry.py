"""One accepted baseline: the series that it is of, and its figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import TypeAlias

import msgspec

from pytest_quant.bounded import parse_json
from pytest_quant.errors import HistoryError
from pytest_quant.result import LaunchFigures


@dataclass(frozen=True, slots=True)
class Series:
    """The parts of a series key, see `pytest_quant.record.series_key`."""

    test: str
    model: str
    backend: str
    precision: str
    scheme: str | None
    batch_size: int
    metric: str | None

    @property
    def key(self) -> str:
        """The series key in records."""
        parts = (self.test, self.model, self.backend, self.precision, self.scheme, self.batch_size, self.metric)
        return json.dumps(parts)

    def __str__(self) -> str:
        """Return the readable form that commands show and search."""
        engine = "-".join(part for part in (self.backend, self.precision, self.scheme) if part)
        return f"{self.test} {self.model} {engine} batch {self.batch_size} {self.metric or 'no metric'}"


_Parts: TypeAlias = tuple[str, str, str, str, str | None, int, str | None]


def series_of(key: str) -> Series:
    """Return the parts of a series key. Raises `HistoryError` when `key` is not one."""
    try:
        return Series(*msgspec.convert(parse_json(key), _Parts))
    except (ValueError, OverflowError) as error:
        raise HistoryError(
            "a series key cannot be read",
            value=key[:200],
            allowed="a JSON list of test, model, backend, precision, scheme, batch size and metric",
        ) from error


@dataclass(frozen=True, slots=True)
class AcceptedLatency:
    """Latency on one machine, comparable on machines of the same `identity` and in the same `way` of timing only.

    `way` is that of `pytest_quant.history.rows.way_of_timing`, `launches` are those that were accepted; an older entry
    has the last one's `speedup` and `candidate_p50_ms` alone, which are medians over the launches else.
    """

    identity: Mapping[str, str]
    speedup: float | None
    candidate_p50_ms: float | None
    way: tuple[str, ...] = ()
    launches: tuple[LaunchFigures, ...] = ()


@dataclass(frozen=True, slots=True)
class BaselineEntry:
    """The accepted figures of one series.

    Attributes
    ----------
    commit, run : commit and id of the run that the record is from; a removed test has no run.
    accepted_at : UTC.
    expires : the last day on which the entry is valid; ``None`` for no end.
    removed : the removal of the test was accepted; then there are no figures.
    unit : of `candidate_score` and `drop`.
    data : digest of the evaluation data; a drop on other data is not compared.
    size_mb, coverage_pct : of the candidate, which `pytest-quant compare` takes as accepted.
    latency : one for each machine with records.
    """

    series: Series
    commit: str
    run: str | None
    reason: str
    accepted_at: datetime
    expires: date | None = None
    removed: bool = False
    unit: str | None = None
    candidate_score: float | None = None
    drop: float | None = None
    data: str | None = None
    size_mb: float | None = None
    coverage_pct: float | None = None
    latency: tuple[AcceptedLatency, ...] = ()

    def expired(self, today: date) -> bool:
        """Whether `today` is later than its last day."""
        return self.expires is not None and today > self.expires
