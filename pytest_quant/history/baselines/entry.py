"""One accepted baseline, as the reviewed file states it, read with errors that name the line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

from pytest_quant.errors import HistoryError, nearest


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


class Table:
    """The fields of one TOML table. Every method raises `HistoryError` when a value is not what it must be.

    Parameters
    ----------
    lines : of the whole file, to find the line of a field.
    first : number of the table's header line, counted from 1.
    """

    def __init__(self, data: object, file: str, lines: list[str], first: int) -> None:
        self._file, self._lines, self._first = file, lines, first
        if not isinstance(data, dict):
            raise self.wrong("the entry is no table", None)
        self._data: dict[str, object] = data

    def only(self, known: tuple[str, ...]) -> None:
        """Refuse a field that is not `known`: a typing error in it would silently judge against nothing."""
        for name in self._data:
            if name not in known:
                raise self.wrong(f"unknown field '{name}'", name, nearest(name, known))

    def text(self, name: str) -> str | None:
        """A text or nothing."""
        found = self._data.get(name)
        if found is not None and not isinstance(found, str):
            raise self._kind(name, "a text")
        return found

    def need_text(self, name: str) -> str:
        """A text that is not empty."""
        found = self.text(name)
        if not found:
            raise self._kind(name, "a text")
        return found

    def need_integer(self, name: str) -> int:
        """A whole number."""
        found = self._data.get(name)
        if isinstance(found, bool) or not isinstance(found, int):
            raise self._kind(name, "a whole number")
        return found

    def number(self, name: str) -> float | None:
        """A finite number or nothing."""
        found = self._data.get(name)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not abs(found) < float("inf"):
            raise self._kind(name, "a number")
        return float(found)

    def flag(self, name: str) -> bool:
        """True, or false, or nothing, which is false."""
        found = self._data.get(name, False)
        if not isinstance(found, bool):
            raise self._kind(name, "true or false")
        return found

    def need_time(self, name: str) -> datetime:
        """A date with time and time zone."""
        found = self._data.get(name)
        if not isinstance(found, datetime) or found.tzinfo is None:
            raise self._kind(name, "a time such as 2026-01-31T12:00:00Z")
        return found

    def day(self, name: str) -> date | None:
        """A date or nothing."""
        found = self._data.get(name)
        if found is not None and (isinstance(found, datetime) or not isinstance(found, date)):
            raise self._kind(name, "a date such as 2026-01-31, without quotes")
        return found

    def texts(self, name: str) -> Mapping[str, str]:
        """A table of texts; empty when it is missing."""
        found = self._data.get(name, {})
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise self._kind(name, "a table of texts")
        return found

    def tables(self, name: str) -> list[Table]:
        """A list of tables; empty when it is missing."""
        found = self._data.get(name, [])
        if not isinstance(found, list):
            raise self._kind(name, "tables")
        headers = [
            number
            for number, line in enumerate(self._lines[self._first :], self._first + 1)
            if re.match(rf"\s*\[\[\s*baseline\s*\.\s*{name}\s*\]\]", line)
        ]
        return [
            Table(data, self._file, self._lines, headers[index] if index < len(headers) else self._first)
            for index, data in enumerate(found)
        ]

    def wrong(self, what: str, name: str | None, allowed: str | None = None) -> HistoryError:
        """Return the error about the field `name`, or about the whole table."""
        line = self._line_of(name)
        return HistoryError(
            f"{self._file}, line {line}: {what}",
            value=self._lines[line - 1].strip()[:120] if self._lines else None,
            allowed=allowed,
            fix="correct the line, or remove the entry and accept it again: pytest-quant accept --reason '...'",
        )

    def _kind(self, name: str, allowed: str) -> HistoryError:
        what = f"'{name}' is missing" if name not in self._data else f"'{name}' is not what it must be"
        return self.wrong(what, name, allowed)

    def _line_of(self, name: str | None) -> int:
        for number, line in enumerate(self._lines[self._first :], self._first + 1):
            if name is None or (self._first and line.lstrip().startswith("[")):
                break
            if re.match(rf"""[\s\[]*["']?{re.escape(name)}["']?\s*[]=.]""", line):
                return number
        return max(self._first, 1)
