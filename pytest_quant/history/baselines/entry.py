"""One accepted baseline as an entry of the reviewed file, read with errors that name the line."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TypeAlias

import msgspec

from pytest_quant.bounded import parse_json
from pytest_quant.errors import HistoryError, nearest
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


class Table:
    """The fields of one TOML table. Every method raises `HistoryError` when a value has the wrong type.

    Parameters
    ----------
    data : the parsed table.
    file : path of the file for messages.
    lines : of the whole file, to find the line of a field.
    first : number of the table's header line, counted from 1; 0 for the top of the file.
    """

    def __init__(self, data: object, file: str, lines: list[str], first: int) -> None:
        self._file, self._lines, self._first = file, lines, first
        if not isinstance(data, dict):
            raise self.wrong("the entry is no table", None)
        self._data: dict[str, object] = data

    def only(self, known: tuple[str, ...]) -> None:
        """Raise for a field that is not `known`, because a misspelled field would silently have no effect."""
        for name in self._data:
            if name not in known:
                raise self.wrong(f"unknown field '{name}'", name, nearest(name, known))

    def text(self, name: str) -> str | None:
        """Return a text, ``None`` where the field is missing."""
        value = self._data.get(name)
        if value is not None and not isinstance(value, str):
            raise self._kind(name, "a text")
        return value

    def need_text(self, name: str) -> str:
        """Return a text that is not empty."""
        value = self.text(name)
        if not value:
            raise self._kind(name, "a text")
        return value

    def need_integer(self, name: str) -> int:
        """Return a whole number."""
        value = self._data.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._kind(name, "a whole number")
        return value

    def number(self, name: str) -> float | None:
        """Return a finite number, ``None`` where the field is missing."""
        value = self._data.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
            raise self._kind(name, "a number")
        return float(value)

    def flag(self, name: str) -> bool:
        """Return a boolean, false where the field is missing."""
        value = self._data.get(name, False)
        if not isinstance(value, bool):
            raise self._kind(name, "true or false")
        return value

    def need_time(self, name: str) -> datetime:
        """Return a time in UTC, of one that is written with its time zone."""
        value = self._data.get(name)
        if isinstance(value, datetime) and value.tzinfo is not None:
            # On the first and the last day of the calendar another zone may lie outside of it.
            with suppress(OverflowError):
                return value.astimezone(UTC)
        raise self._kind(name, "a time such as 2026-01-31T12:00:00Z")

    def day(self, name: str) -> date | None:
        """Return a date, ``None`` where the field is missing."""
        value = self._data.get(name)
        if value is not None and (isinstance(value, datetime) or not isinstance(value, date)):
            raise self._kind(name, "a date such as 2026-01-31, without quotes")
        return value

    def texts(self, name: str) -> Mapping[str, str]:
        """Return a table of texts, empty where the field is missing."""
        table = self._data.get(name, {})
        if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
            raise self._kind(name, "a table of texts")
        return table

    def words(self, name: str) -> tuple[str, ...]:
        """Return a list of texts, empty where the field is missing."""
        items = self._data.get(name, [])
        if not isinstance(items, list) or not all(isinstance(one, str) for one in items):
            raise self._kind(name, "a list of texts")
        return tuple(items)

    def tables(self, name: str) -> list[Table]:
        """Return a list of tables, empty where the field is missing."""
        items = self._data.get(name, [])
        if not isinstance(items, list):
            raise self._kind(name, "tables")
        headers = [
            number
            for number, line in enumerate(self._lines[self._first :], self._first + 1)
            if re.match(rf"\s*\[\[\s*baseline\s*\.\s*{name}\s*\]\]", line)
        ]
        return [
            Table(data, self._file, self._lines, headers[index] if index < len(headers) else self._first)
            for index, data in enumerate(items)
        ]

    def wrong(self, what: str, name: str | None, allowed: str | None = None) -> HistoryError:
        """Return an error with the line of a field and a remedy.

        Parameters
        ----------
        what : description of the fault.
        name : of the field; ``None`` for the whole table.
        allowed : description of valid values; ``None`` for none.
        """
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
