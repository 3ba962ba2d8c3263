"""One accepted baseline: what stands in the reviewed file about one series."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

from pytest_quant.errors import HistoryError


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
        """The key as records have it."""
        parts = (self.test, self.model, self.backend, self.precision, self.scheme, self.batch_size, self.metric)
        return json.dumps(parts)

    def __str__(self) -> str:
        """Readable, as commands show and search it."""
        engine = "-".join(part for part in (self.backend, self.precision, self.scheme) if part)
        return f"{self.test} {self.model} {engine} batch {self.batch_size} {self.metric or 'no metric'}"


_KINDS: tuple[type | tuple[type, ...], ...] = (str, str, str, str, (str, type(None)), int, (str, type(None)))


def _fits(parts: list[object]) -> bool:
    if len(parts) != len(_KINDS):
        return False
    return all(isinstance(part, kind) and not isinstance(part, bool) for part, kind in zip(parts, _KINDS, strict=True))


def series_of(key: str) -> Series:
    """Return the parts of a series key. Raises `HistoryError` when it is none."""
    try:
        parts = json.loads(key)
    except ValueError:
        parts = None
    if not isinstance(parts, list) or not _fits(parts):
        raise HistoryError(
            "a series key cannot be read",
            value=key[:200],
            allowed="a JSON list of test, model, backend, precision, scheme, batch size and metric",
        )
    return Series(*parts)


@dataclass(frozen=True, slots=True)
class AcceptedLatency:
    """Latency on one machine; `identity` must match before another is compared with it."""

    identity: Mapping[str, str]
    speedup: float | None
    candidate_p50_ms: float | None


@dataclass(frozen=True, slots=True)
class BaselineEntry:
    """What was accepted of one series.

    Attributes
    ----------
    commit, run : where the record is from, to find it again; a removed test has no run.
    accepted_at : when, UTC.
    expires : the last day on which it counts; ``None`` for no end.
    removed : it was accepted that the test is gone; then there are no values.
    unit : of `candidate_score` and `drop`.
    data : digest of the evaluation data; a drop on other data is not compared.
    latency : one for each machine that the record was made on.
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
    latency: tuple[AcceptedLatency, ...] = ()

    def expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return self.expires is not None and today > self.expires
