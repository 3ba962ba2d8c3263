"""Read the figures of many series at once: a million checks in a few seconds."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, func, select, tuple_
from sqlalchemy.exc import DBAPIError

from pytest_quant.history.figures import Floats, SeriesFigures, Texts
from pytest_quant.history.rows import digest_of
from pytest_quant.history.schema import CHECKS, RUNS, SERIES

_TEXTS = ("version", "identity", "status", "isa")
_NUMBERS = (
    *("candidate", "drop", "drop_low", "drop_high", "speedup", "speedup_low", "speedup_high"),
    *("candidate_p50_ms", "p50_low_ms", "p50_high_ms"),
)
_PLACE = ("run", "position", "series")
_BETWEEN = "/"
"""The texts of a check are read as one, which is faster; only the last of them, the instruction set, may hold this."""

_ROWS_AT_ONCE = 500
"""So many rows stay in the processor's cache while they become columns."""

_SENT_AT_ONCE = 20_000
_ASKED_AT_ONCE = 5000

_FEW = 8
"""One of so many series or more are read through the index; with fewer series in the history it is faster to go through
all checks in the order in which they lie on the disk."""


def read_figures(
    connection: Connection, keys: Sequence[str], of_runs: Sequence[ColumnElement[bool]], limit: int | None
) -> list[SeriesFigures]:
    """Return the figures of each series, in the order of `keys`; all are read in one transaction.

    Parameters
    ----------
    keys : of the series; one that is not in the history has no points.
    of_runs : conditions on the runs that count; none for all.
    limit : largest number of checks of each series, the newest ones; ``None`` for all.
    """
    numbers = _numbers(connection, keys)
    runs = _Runs(connection, of_runs)
    checks = _Checks(connection, _query(connection, sorted(numbers.values()), runs), runs)
    places = {key: checks.newest(numbers.get(digest_of(key)), limit) for key in dict.fromkeys(keys)}
    scales = _scales(connection, checks, places)
    return [_figures(key, checks, runs, places[key], scales[key]) for key in keys]


def _numbers(connection: Connection, keys: Iterable[str]) -> dict[str, int]:
    """Return the numbers of the series that are in the history, by the digest of their key."""
    digests = sorted({digest_of(key) for key in keys})
    found: dict[str, int] = {}
    for start in range(0, len(digests), _ASKED_AT_ONCE):
        asked = SERIES.c.digest.in_(digests[start : start + _ASKED_AT_ONCE])
        rows = connection.execute(select(SERIES.c.digest, SERIES.c.number).where(asked))
        found |= {str(digest): int(number) for digest, number in rows}
    return found


def _query(connection: Connection, numbers: Sequence[int], runs: _Runs) -> str:
    """Return the query for the checks of series, with nothing in it but our columns and whole numbers."""
    texts: ColumnElement[str] = CHECKS.c[_TEXTS[0]]
    for name in _TEXTS[1:]:
        texts = texts + _BETWEEN + CHECKS.c[name]
    wanted = select(*(CHECKS.c[name] for name in _PLACE), texts, *(CHECKS.c[name] for name in _NUMBERS))
    if runs.some:
        wanted = wanted.where(CHECKS.c.run.in_(runs.numbers.tolist()))
    of_all = int(connection.execute(select(func.count()).select_from(SERIES)).scalar_one())
    if len(numbers) < of_all:
        # A sum is in no index, so that the checks are gone through in the order in which they lie.
        column: ColumnElement[int] = CHECKS.c.series if len(numbers) * _FEW <= of_all else CHECKS.c.series + 0
        wanted = wanted.where(column.in_(numbers))
    return str(wanted.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True}))


class _Runs:
    """The runs that count, oldest first, in columns; `some` tells that there may be others, `numbers` are sorted."""

    def __init__(self, connection: Connection, of_runs: Sequence[ColumnElement[bool]]) -> None:
        wanted = select(RUNS.c.number, RUNS.c.started_at, RUNS.c.commit, RUNS.c.branch, RUNS.c.dirty)
        rows = connection.execute(wanted.where(*of_runs).order_by(RUNS.c.started_at, RUNS.c.id)).all()
        numbers = np.array([row[0] for row in rows], np.int64)
        self.some = bool(of_runs)
        self._by_number = np.argsort(numbers)
        self.numbers = numbers[self._by_number]
        self.started_at, self.commit, self.branch = (_texts([row[column] for row in rows]) for column in (1, 2, 3))
        self.dirty = np.array([row[4] for row in rows], np.bool_)

    def places(self, numbers: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the place in the order of time of runs by their number; -1 for one that does not count."""
        if not self.numbers.size:
            return np.full(numbers.size, -1)
        at = np.minimum(np.searchsorted(self.numbers, numbers), self.numbers.size - 1)
        return np.where(self.numbers[at] == numbers, self._by_number[at], -1)


class _Checks:
    """The checks that a query finds, by series and then by time, in columns."""

    def __init__(self, connection: Connection, query: str, runs: _Runs) -> None:
        codes: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        parts = [_NO_ROWS, *(_columns(rows, codes) for rows in _parts(connection, query))]
        columns = dict(zip((*_PLACE, "texts", *_NUMBERS), map(np.concatenate, zip(*parts, strict=True)), strict=True))
        at = runs.places(columns["run"])
        # A run that was added since the runs were read is of the next page.
        known = np.flatnonzero(at >= 0)
        order = known[_order(columns["series"][known], at[known], columns["position"][known])]
        self.at = at[order]
        self.columns = {name: columns[name][order] for name in (*_PLACE, *_NUMBERS)}
        alike = columns["texts"][order]
        apart = [text.split(_BETWEEN, len(_TEXTS) - 1) for text in codes]
        of_each = {name: _texts([texts[place] for texts in apart]) for place, name in enumerate(_TEXTS)}
        self.texts = {name: Texts(texts.known, texts.codes[alike]) for name, texts in of_each.items()}

    def newest(self, series: int | None, limit: int | None) -> slice:
        """Return where the newest `limit` checks of a series are; none for one that is not in the history."""
        if series is None:
            return slice(0, 0)
        start, stop = np.searchsorted(self.columns["series"], [series, series + 1]).tolist()
        return slice(start if limit is None else max(start, stop - limit), stop)


def _parts(connection: Connection, query: str) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a query as the driver gives them, some hundred at a time.

    Raises
    ------
    DBAPIError : the query failed, now or after some rows.
    """
    # A server would send all rows at once to a cursor without a name.
    on_server = connection.dialect.name == "postgresql"
    options = {"name": "quant_figures", "binary": True} if on_server else {}
    try:
        cursor: Any = connection.connection.cursor(**options)
        with closing(cursor):
            if on_server:
                cursor.itersize = _SENT_AT_ONCE
            cursor.execute(query)
            rows = iter(cursor)
            while part := list(itertools.islice(rows, _ROWS_AT_ONCE)):
                yield part
    except connection.dialect.loaded_dbapi.Error as error:
        raise DBAPIError(None, None, error) from error


def _columns(rows: Sequence[tuple[Any, ...]], codes: defaultdict[str, int]) -> tuple[NDArray[Any], ...]:
    """Return rows as columns, NaN where a number is missing; the texts as codes, to which new ones are added."""
    columns = list(zip(*rows, strict=True))
    texts = len(_PLACE)
    places = [np.array(column, np.int64) for column in columns[:texts]]
    coded = np.fromiter(map(codes.__getitem__, columns[texts]), np.int32, len(rows))
    return (*places, coded, *(np.array(column, np.float64) for column in columns[texts + 1 :]))


_NO_ROWS = (
    *(np.empty(0, np.int64) for _ in _PLACE),
    np.empty(0, np.int32),
    *(np.empty(0, np.float64) for _ in _NUMBERS),
)


def _order(series: NDArray[np.int64], at: NDArray[np.intp], position: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the order of checks by series, by the place `at` of their run in time, and by position in the run."""
    places = series * (int(at.max(initial=0)) + 1) + at
    order = np.argsort(places, kind="stable")
    # Rarely is a series in a run twice; sorting by two keys takes far longer.
    twice = bool(np.any(np.diff(places[order]) == 0))
    return np.lexsort((position, places)) if twice else order


def _texts(column: Sequence[str | None]) -> Texts:
    codes: defaultdict[str | None, int] = defaultdict(itertools.count().__next__)
    numbers = np.fromiter(map(codes.__getitem__, column), np.int32, len(column))
    return Texts(tuple(codes), numbers)


def _scales(
    connection: Connection, checks: _Checks, places: Mapping[str, slice]
) -> dict[str, dict[str, tuple[str | None, str | None]]]:
    """Return unit and direction of each version of each series, which all checks of a version have in common."""
    of_row: dict[tuple[int, int], tuple[str, str]] = {}
    for key, place in places.items():
        versions, first = np.unique(checks.texts["version"].codes[place], return_index=True)
        for version, at in zip(versions.tolist(), (place.start + first).tolist(), strict=True):
            row = (int(checks.columns["run"][at]), int(checks.columns["position"][at]))
            of_row[row] = (key, checks.texts["version"].known[version] or "")
    found: dict[str, dict[str, tuple[str | None, str | None]]] = {key: {} for key in places}
    asked = list(of_row)
    place_of = tuple_(CHECKS.c.run, CHECKS.c.position)
    for start in range(0, len(asked), _ASKED_AT_ONCE):
        wanted = select(CHECKS.c.run, CHECKS.c.position, CHECKS.c.unit, CHECKS.c.better)
        rows = connection.execute(wanted.where(place_of.in_(asked[start : start + _ASKED_AT_ONCE])))
        for run, position, unit, better in rows:
            key, version = of_row[run, position]
            found[key][version] = (unit, better)
    return found


def _figures(
    key: str, checks: _Checks, runs: _Runs, place: slice, scales: Mapping[str, tuple[str | None, str | None]]
) -> SeriesFigures:
    at = checks.at[place]

    def of_runs(column: Texts) -> Texts:
        return Texts(column.known, column.codes[at])

    def texts(name: str) -> Texts:
        return Texts(checks.texts[name].known, checks.texts[name].codes[place])

    def numbers(name: str) -> Floats:
        return checks.columns[name][place]

    return SeriesFigures(
        key=key,
        started_at=of_runs(runs.started_at),
        commit=of_runs(runs.commit),
        branch=of_runs(runs.branch),
        dirty=runs.dirty[at],
        version=texts("version"),
        identity=texts("identity"),
        isa=texts("isa"),
        status=texts("status"),
        candidate=numbers("candidate"),
        drop=numbers("drop"),
        drop_low=numbers("drop_low"),
        drop_high=numbers("drop_high"),
        speedup=numbers("speedup"),
        speedup_low=numbers("speedup_low"),
        speedup_high=numbers("speedup_high"),
        candidate_p50_ms=numbers("candidate_p50_ms"),
        p50_low_ms=numbers("p50_low_ms"),
        p50_high_ms=numbers("p50_high_ms"),
        scales=scales,
    )
