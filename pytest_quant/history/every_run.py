"""Every run with its records, read so that damage costs no more than the run or the record that is damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import Engine, Row, Select, func, select

from pytest_quant.errors import HistoryError
from pytest_quant.history.connect import reading, storage_errors
from pytest_quant.history.rows import decode_run, indexed, unpack
from pytest_quant.history.schema import CHECKS, RECORDS, RUNS
from pytest_quant.record import Record, Run

T = TypeVar("T")

_OLDEST_FIRST = (RUNS.c.started_at, RUNS.c.id)
_RUNS_AT_ONCE = 200

# From the checks to their records, so that a check whose record is missing is seen.
_WHOLE_RUNS: Select[*tuple[Any, ...]] = (
    select(RUNS.c.number, RUNS.c.id, RUNS.c.run, CHECKS.c.position, RECORDS.c.record)
    .select_from(RUNS)
    .outerjoin(CHECKS, CHECKS.c.run == RUNS.c.number)
    .outerjoin(RECORDS, (RECORDS.c.run == CHECKS.c.run) & (RECORDS.c.position == CHECKS.c.position))
    .order_by(*_OLDEST_FIRST, CHECKS.c.position)
)


@dataclass(frozen=True, slots=True)
class EveryRun:
    """The runs of a history, oldest first, with a few hundred of them in memory at most.

    Attributes
    ----------
    engine : of the database.
    shown : place of the history for messages.
    unreadable : gets a sentence for each run or record that is damaged, which is left out; with ``None`` the first
        damage raises `HistoryError`.
    """

    engine: Engine
    shown: str
    unreadable: list[str] | None = None

    def read(self, run_id: str | None = None) -> Iterator[tuple[Run, tuple[Record, ...]]]:
        """Yield each run with its records, or the one run with this id. Raises `HistoryError`."""
        names = self._names(run_id)
        numbers = list(names)
        for start in range(0, len(numbers), _RUNS_AT_ONCE):
            yield from self._runs(numbers[start : start + _RUNS_AT_ONCE], names)

    def _names(self, run_id: str | None) -> dict[int, str]:
        """Return what messages call each run, by its number and in order of time."""
        wanted = select(RUNS.c.number, RUNS.c.id).order_by(*_OLDEST_FIRST)
        if run_id is not None:
            wanted = wanted.where(RUNS.c.id == indexed(run_id))
        try:
            return {row.number: f"run {row.id}" for row in self._rows(wanted)}
        except HistoryError:
            if run_id is not None or not self._skips_pages():
                raise
        # Runs that cannot be listed are read by their numbers; the last one is known from the records.
        newest = self._rows(select(func.max(RECORDS.c.run)))[0][0] or 0
        return {number: f"run number {number}" for number in range(1, newest + 1)}

    def _runs(self, numbers: Sequence[int], names: dict[int, str]) -> Iterator[tuple[Run, tuple[Record, ...]]]:
        try:
            rows = self._rows(_WHOLE_RUNS.where(RUNS.c.number.in_(numbers)))
        except HistoryError as error:
            if not self._skips_pages():
                raise
            if len(numbers) == 1:
                self._leave_out(names[numbers[0]], error.value or error.what)
            else:
                for number in numbers:
                    yield from self._runs([number], names)
            return
        for _, of_run in groupby(rows, key=lambda row: row.number):
            checks = list(of_run)
            run = self._readable(partial(decode_run, checks[0].run, f"run {checks[0].id}"))
            if run is None:
                continue
            # A run without checks is one row without a position.
            records = [self._readable(partial(_record, row)) for row in checks if row.position is not None]
            yield run, tuple(record for record in records if record is not None)

    def _rows(self, query: Select[*tuple[Any, ...]]) -> Sequence[Row[*tuple[Any, ...]]]:
        with storage_errors(self.shown, "read"), reading(self.engine) as connection:
            return connection.execute(query).all()

    def _skips_pages(self) -> bool:
        """Whether an error of the database is taken for damage of single pages of its file.

        That of a server is none: it may be gone, and each further question would wait for it again.
        """
        return self.unreadable is not None and self.engine.dialect.name == "sqlite"

    def _readable(self, decode: Callable[[], T]) -> T | None:
        try:
            return decode()
        except HistoryError as error:
            if self.unreadable is None:
                raise
            self._leave_out(error.what, error.value)
            return None

    def _leave_out(self, what: str, value: str | None) -> None:
        if self.unreadable is not None:
            self.unreadable.append(f"{what}: {value}" if value else what)


def _record(row: Row[*tuple[Any, ...]]) -> Record:
    where = f"record {row.position} of run {row.id}"
    if row.record is None:
        raise HistoryError(f"{where} of the history is damaged: its details are missing")
    return unpack(row.record, where)
