"""The history: every record of every run in one database, and the queries on it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Engine, Select, and_, delete, func, insert, select
from sqlalchemy import Row as Found

from pytest_quant.environment.revision import are_apart
from pytest_quant.errors import HistoryError, UsageError, nearest
from pytest_quant.history.connect import CHECKS, RECORDS, RUNS, SELFTESTS, SERIES, open_transaction, storage_errors
from pytest_quant.history.rows import StoredCheck, StoredRun, decode_run, id_start, shorten_for_index, to_utc, unpack
from pytest_quant.history.summaries import CheckSummary, SeriesSummary, read_summary
from pytest_quant.history.writing import RunToAdd, add_runs, batches
from pytest_quant.record import EncodedRecord, Record, Run
from pytest_quant.result import Status
from pytest_quant.spec import SeriesKey

T = TypeVar("T")

_NEWEST_FIRST = (RUNS.c.started_at.desc(), RUNS.c.id.desc())
_OLDEST_FIRST = (RUNS.c.started_at, RUNS.c.id)
# By the start that stands beside each check, so that one index has the checks of a series in this order.
_NEWEST_CHECKS = (CHECKS.c.started_at.desc(), RUNS.c.id.desc(), CHECKS.c.position.desc())
_RUNS_AT_ONCE = 200
_SERIES_AT_ONCE = 5000
_SHOWN_IDS = 10

# From the checks to their records, so that a check whose record is missing is seen.
_OF_RUNS = (*RUNS.c["number", "id", "run"], CHECKS.c.position, RECORDS.c.record)
_WHOLE_RUNS: Select[*tuple[Any, ...]] = select(*_OF_RUNS).select_from(RUNS.outerjoin(CHECKS).outerjoin(RECORDS))
_OF_CHECKS = CHECKS.join(RUNS).join(SERIES)
_CHECKS: Select[*tuple[Any, ...]] = select(*_OF_RUNS).select_from(_OF_CHECKS.join(RECORDS))

# The index tells the last check of each series at once; to count them is to read all of it.
_OF_SERIES = CHECKS.c.series == SERIES.c.number
_LAST = select(func.max(CHECKS.c.started_at)).where(_OF_SERIES).scalar_subquery()
_KEYS: Select[*tuple[Any, ...]] = select(SERIES.c.key).where(_LAST.is_not(None))

_OF_SUMMARY = (*RUNS.c["commit", "branch", "dirty"], *CHECKS.c["started_at", "status", "figures"])
_SUMMARIES: Select[*tuple[Any, ...]] = select(
    RUNS.c.id.label("run_id"), SERIES.c.key.label("series"), *_OF_SUMMARY
).select_from(_OF_CHECKS)


class Store:
    """An open history. Every method raises `HistoryError` when the database cannot be read or written."""

    def __init__(self, engine: Engine, shown: str, repository: Sequence[str] = ()) -> None:
        self.engine = engine
        self.shown = shown
        self._repository = repository

    @cached_property
    def others(self) -> list[str]:
        """The names of each other repository that has runs here, which are in no base and no trend of this one."""
        stored = self._read(select(RUNS.c.repository).distinct()) if self._repository else []
        return [names for (names,) in stored if are_apart(names.split(), self._repository)]

    @property
    def left_out(self) -> str:
        """What is not looked at, as the end of a line; else empty."""
        return f"; left out: runs of other repositories, {', '.join(self.others)}" if self.others else ""

    def _clean(self, ids: Sequence[str]) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        """Choose the runs of commits or trees. A commit is of one repository and its forks; a tree may be of any."""
        values = [shorten_for_index(each) for each in ids]
        return RUNS.c.commit.in_(values) | and_(RUNS.c.tree.in_(values), *self._ours()), ~RUNS.c.dirty

    def _ours(self) -> list[ColumnElement[bool]]:
        return [RUNS.c.repository.not_in(self.others)] if self.others else []

    def append(self, run: Run, records: Sequence[Record | EncodedRecord]) -> bool:
        """Add a run with its records, all or nothing; ``False`` when a run of this id is already stored."""
        return self.append_many([(run, records)]) == (1, 0)

    def append_many(self, runs: Iterable[RunToAdd]) -> tuple[int, int]:
        """Add many runs, a few thousand records in one transaction; each run is added whole or not at all.

        Returns
        -------
        The number of runs that were added, and of those that were already stored.
        """
        added = repeated = 0
        for batch in batches(runs):
            with storage_errors(self.shown, "written"), open_transaction(self.engine) as connection:
                new = add_runs(connection, batch)
            added += new
            repeated += len(batch) - new
        return added, repeated

    def runs(self, limit: int | None = None, branch: str | None = None, since: str | None = None) -> list[StoredRun]:
        """Return runs, newest first.

        Parameters
        ----------
        limit : largest number of runs; ``None`` for all.
        branch : only runs of this branch.
        since : only runs that started then or later, a date or time in ISO 8601, in UTC when it names no zone.
        """
        chosen = select(RUNS.c.number, RUNS.c.id, RUNS.c.run).where(*_filter_runs(branch, since))
        return self._stored_runs(chosen.order_by(*_NEWEST_FIRST).limit(limit))

    def run(self, beginning: str) -> StoredRun:
        """Return the run with this id, or the only one whose id starts with it.

        Raises
        ------
        UsageError : there is none, or there are several.
        """
        run_id = self._id(beginning)
        return self._stored_runs(select(RUNS.c.number, RUNS.c.id, RUNS.c.run).where(RUNS.c.id == run_id))[0]

    def dirty_runs(self, commit: str) -> list[Run]:
        """Return the runs of a commit with uncommitted changes, newest first."""
        wanted = select(RUNS.c.id, RUNS.c.run).where(RUNS.c.commit == shorten_for_index(commit), RUNS.c.dirty)
        return [decode_run(text, f"run {run_id}") for run_id, text in self._read(wanted.order_by(*_NEWEST_FIRST))]

    def remove(self, beginning: str, *, dry_run: bool = False) -> str:
        """Remove the run that `run` would return, with its records, and return its id. Raises as `run` does."""
        run_id = self._id(beginning)
        if not dry_run:
            with storage_errors(self.shown, "written"), open_transaction(self.engine) as connection:
                connection.execute(delete(RUNS).where(RUNS.c.id == run_id))
        return run_id

    def _id(self, beginning: str) -> str:
        text = id_start(beginning)
        # A range, which an index finds; both databases sort these texts by their bytes.
        begins = (RUNS.c.id >= text, RUNS.c.id <= text + chr(sys.maxunicode))
        matching = self._read(select(RUNS.c.id).where(*begins).order_by(*_NEWEST_FIRST))
        ids = [str(run_id) for (run_id,) in matching]
        if text not in ids and len(ids) != 1:
            if ids:
                what = f"{len(ids)} runs begin with '{beginning}'"
                raise UsageError(what, allowed=", ".join(ids[:_SHOWN_IDS]), fix="write more of the id")
            newest = self._read(select(RUNS.c.id).order_by(*_NEWEST_FIRST).limit(_SHOWN_IDS))
            raise UsageError(f"there is no run '{beginning}'", allowed=nearest(text, (str(row.id) for row in newest)))
        return text if text in ids else ids[0]

    def records(self, run_id: str) -> list[Record]:
        """Return the records of one run, in their order."""
        wanted = select(RECORDS.c.position, RECORDS.c.record).join(RUNS, RUNS.c.number == RECORDS.c.run)
        rows = self._read(wanted.where(RUNS.c.id == shorten_for_index(run_id)).order_by(RECORDS.c.position))
        return [unpack(packed, _place(run_id, position)) for position, packed in rows]

    def checks(self, limit: int | None = None) -> list[StoredCheck]:
        """Return the last `limit` records, out of as many runs at most, newest run first, in the order of each run."""
        newest = select(RUNS.c.number).order_by(*_NEWEST_FIRST).limit(limit)
        wanted = _CHECKS.where(RUNS.c.number.in_(newest)).order_by(*_NEWEST_FIRST, CHECKS.c.position)
        return _stored_checks(self._read(wanted.limit(limit)))

    def commits(self, ids: Sequence[str], below: str = "") -> set[str]:
        """Return the `ids` of commits or trees that have a run without uncommitted changes.

        Where `below` is given, only runs with a test of that folder count, ``a/``, see `SeriesKey`.
        """
        by_text = {shorten_for_index(commit): commit for commit in ids}
        recorded: set[str] = set()
        for column in (RUNS.c.commit, RUNS.c.tree):
            wanted = select(column).distinct().where(column.in_(by_text), *self._clean(ids))
            if below:
                wanted = wanted.join(CHECKS, CHECKS.c.run == RUNS.c.number).join(SERIES, _OF_SERIES)
                wanted = wanted.where(SERIES.c.key.startswith(json.dumps([below])[:-2], autoescape=True))
            rows = self._read(wanted)
            recorded |= {by_text[str(text)] for (text,) in rows}
        return recorded

    def launches(self, *ids: str, series: str | None = None) -> list[StoredCheck]:
        """Return the records of every run of these commits or trees with a clean tree, oldest run first.

        The records of each run, of one series or of all, are in its order.
        """
        wanted = _CHECKS.where(*self._clean(ids))
        if series is not None:
            wanted = wanted.where(_match_series(series))
        return _stored_checks(self._read(wanted.order_by(*_OLDEST_FIRST, CHECKS.c.position)))

    def newest(self, limit: int) -> Iterator[StoredCheck]:
        """Yield the newest `limit` records of each series, the newest first; no other record is read."""
        for (number,) in self._read(select(SERIES.c.number)):
            wanted = _CHECKS.where(CHECKS.c.series == number).order_by(*_NEWEST_CHECKS).limit(limit)
            yield from _stored_checks(self._read(wanted))

    def runs_of(self, *ids: str) -> list[Run]:
        """Return every run of these commits or trees with a clean tree, with and without checks."""
        rows = self._read(select(RUNS.c.id, RUNS.c.run).where(*self._clean(ids)).order_by(*_OLDEST_FIRST))
        return [decode_run(text, f"run {run_id}") for run_id, text in rows]

    def last_pass(self, series: str) -> StoredCheck | None:
        """Return the newest record of a series that is a PASS, of any commit; ``None`` without one.

        Where none ever was, it is the newest that had no baseline or could not be judged, whose test passed all the
        same: a test with a limit against a baseline is no PASS until a record is accepted.
        """
        for statuses in ((Status.PASS,), (Status.NO_BASELINE, Status.INCONCLUSIVE)):
            passed = _CHECKS.where(_match_series(series), *self._ours(), CHECKS.c.status.in_(statuses))
            if found := _stored_checks(self._read(passed.order_by(*_NEWEST_CHECKS).limit(1))):
                return found[0]
        return None

    def points_of(self, commits: Sequence[str]) -> list[CheckSummary]:
        """Return the summaries of all checks of all runs of `commits` with a clean tree, oldest run first."""
        wanted = _SUMMARIES.where(*self._clean(commits)).order_by(*_OLDEST_FIRST, CHECKS.c.position)
        return list(map(_summary, self._read(wanted)))

    def series_keys(self) -> list[str]:
        """Return the key of every series as text, sorted, without counting its checks."""
        return sorted(str(key) for (key,) in self._read(_KEYS))

    def series(self, keys: Sequence[str] | None = None) -> list[SeriesSummary]:
        """Return a summary of the series with these `keys`, of every one for ``None``, sorted by key."""
        wanted = _KEYS.add_columns(select(func.count()).where(_OF_SERIES).scalar_subquery(), _LAST)
        portions = [wanted]
        if keys is not None:
            digests = [SeriesKey.parse(key).digest for key in keys]
            starts = range(0, len(digests), _SERIES_AT_ONCE)
            portions = [wanted.where(SERIES.c.digest.in_(digests[at : at + _SERIES_AT_ONCE])) for at in starts]
        rows = (row for portion in portions for row in self._read(portion))
        return sorted((SeriesSummary(*row) for row in rows), key=attrgetter("key"))

    def points(
        self, series: str, *, branch: str | None = None, since: str | None = None, limit: int | None = None
    ) -> list[CheckSummary]:
        """Return the summaries of one series' checks, oldest first, without decoding records.

        Parameters
        ----------
        series : key of the series.
        branch : only checks of this branch.
        since : only checks of runs that started then or later, date or time in ISO 8601, UTC when it names no zone.
        limit : largest number of checks, the newest ones; ``None`` for all.
        """
        wanted = _SUMMARIES.where(_match_series(series), *self._ours(), *_filter_runs(branch, since))
        return list(map(_summary, reversed(self._read(wanted.order_by(*_NEWEST_CHECKS).limit(limit)))))

    def each_run(
        self, run_id: str | None = None, unreadable: list[str] | None = None
    ) -> Iterator[tuple[Run, tuple[Record, ...]]]:
        """Yield every run with its records, oldest first, with a few hundred runs in memory at most.

        Parameters
        ----------
        run_id : of the one run to yield; ``None`` for all.
        unreadable : gets a sentence for each run or record that is damaged, which is left out; ``None`` to raise
            `HistoryError` for the first one.
        """
        wanted = select(RUNS.c.number).order_by(*_OLDEST_FIRST)
        if run_id is not None:
            wanted = wanted.where(RUNS.c.id == shorten_for_index(run_id))
        numbers = [number for (number,) in self._read(wanted)]
        for start in range(0, len(numbers), _RUNS_AT_ONCE):
            wanted = _WHOLE_RUNS.where(RUNS.c.number.in_(numbers[start : start + _RUNS_AT_ONCE]))
            rows = self._read(wanted.order_by(*_OLDEST_FIRST, CHECKS.c.position))
            for _, of_run in groupby(rows, key=lambda row: row.number):
                yield from _read_whole_run(list(of_run), unreadable)

    def keep_selftest(self, row: Mapping[str, object]) -> None:
        """Add a self-test, see `SELFTESTS`."""
        with storage_errors(self.shown, "written"), open_transaction(self.engine) as connection:
            connection.execute(insert(SELFTESTS), [row])

    def newest_selftest(self, machine: str, device: str) -> str | None:
        """Return the document of the newest self-test of machines like one, ``None`` without one."""
        of_machine = (SELFTESTS.c.machine == machine, SELFTESTS.c.device == device)
        newest_first = (SELFTESTS.c.measured_at.desc(), SELFTESTS.c.number.desc())
        rows = self._read(select(SELFTESTS.c.document).where(*of_machine).order_by(*newest_first).limit(1))
        return rows[0].document if rows else None

    def _stored_runs(self, chosen: Select[*tuple[Any, ...]]) -> list[StoredRun]:
        """Read runs and count their checks, both in one transaction."""
        numbers = chosen.subquery()
        counting = select(CHECKS.c.run, CHECKS.c.status, func.count()).where(CHECKS.c.run.in_(select(numbers.c.number)))
        with storage_errors(self.shown, "read"), self.engine.connect() as connection:
            runs = connection.execute(chosen).all()
            counted = connection.execute(counting.group_by(CHECKS.c.run, CHECKS.c.status)).all()
        counts: dict[int, dict[str, int]] = {}
        for number, status, count in counted:
            counts.setdefault(number, {})[status] = count
        return [StoredRun(decode_run(text, f"run {run_id}"), counts.get(number, {})) for number, run_id, text in runs]

    def _read(self, query: Select[*tuple[Any, ...]]) -> Sequence[Found[*tuple[Any, ...]]]:
        with storage_errors(self.shown, "read"), self.engine.connect() as connection:
            return connection.execute(query).all()


def _read_whole_run(
    rows: Sequence[Found[*tuple[Any, ...]]], unreadable: list[str] | None
) -> Iterator[tuple[Run, tuple[Record, ...]]]:
    run = _readable(partial(decode_run, rows[0].run, f"run {rows[0].id}"), unreadable)
    if run is not None:
        # A run without checks is one row without a position.
        checks = [partial(unpack, row.record, _place(row.id, row.position)) for row in rows if row.position is not None]
        records = [_readable(check, unreadable) for check in checks]
        yield run, tuple(record for record in records if record is not None)


def _readable(decode: Callable[[], T], unreadable: list[str] | None) -> T | None:
    try:
        return decode()
    except HistoryError as error:
        if unreadable is None:
            raise
        unreadable.append(f"{error.what}: {error.value}" if error.value else error.what)
        return None


def _filter_runs(branch: str | None, since: str | None) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if branch is not None:
        conditions.append(RUNS.c.branch == shorten_for_index(branch))
    if since is not None:
        conditions.append(RUNS.c.started_at >= to_utc(since))
    return conditions


def _match_series(key: str) -> ColumnElement[bool]:
    # By its number, found first: only then does a server take the newest checks from the index, and leave the rest.
    number = select(SERIES.c.number).where(SERIES.c.digest == SeriesKey.parse(key).digest)
    return CHECKS.c.series == number.scalar_subquery()


def _stored_checks(rows: Sequence[Found[*tuple[Any, ...]]]) -> list[StoredCheck]:
    """Decode the records, and each run only once."""
    runs: dict[int, Run] = {}
    for number, run_id, document, _, _ in rows:
        if number not in runs:
            runs[number] = decode_run(document, f"run {run_id}")
    return [
        StoredCheck(runs[number], unpack(packed, _place(run_id, position)))
        for number, run_id, _, position, packed in rows
    ]


def _place(run_id: str, position: int) -> str:
    return f"record {position} of run {run_id}"


def _summary(row: Found[*tuple[Any, ...]]) -> CheckSummary:
    return read_summary(**row._mapping)  # noqa: SLF001 - public in all but its name
