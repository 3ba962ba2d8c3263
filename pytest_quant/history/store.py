"""The history: every record of every run, in one database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, Row, Select, func, insert, select
from sqlalchemy.exc import IntegrityError

from pytest_quant.environment import fingerprint
from pytest_quant.history.connect import open_engine, storage_errors
from pytest_quant.history.rows import StoredCheck, StoredRun, decode_record, decode_run, encode
from pytest_quant.history.schema import ACCEPTED, CHECKS, RUNS
from pytest_quant.record import Record, Run, run_to_json
from pytest_quant.result import Baseline

_NEWEST_FIRST = (RUNS.c.started_at.desc(), RUNS.c.id.desc())


class Store:
    """An open history. Every method raises `HistoryError` when the database cannot be read or written."""

    def __init__(self, engine: Engine, shown: str) -> None:
        self._engine = engine
        self._shown = shown

    def append(self, run: Run, records: Sequence[Record]) -> bool:
        """Add a run with its records, all or nothing; ``False`` when a run of this id is already there."""
        document: dict[str, Any] = run_to_json(run, records)
        written = document["run"]
        run_row = {name: written[name] for name in ("id", "started_at", "commit", "branch")}
        check_rows = [
            {
                "run_id": run.id,
                "position": i,
                "series": data["series"],
                "status": data["status"],
                "record": encode(data),
            }
            for i, data in enumerate(document["checks"])
        ]
        with storage_errors(self._shown, "written"), self._engine.begin() as connection:
            try:
                # Writing comes first in the transaction: SQLite does not wait where one begins with reading.
                connection.execute(insert(RUNS).values(run_row | {"run": encode(written)}))
            except IntegrityError:
                return False
            if check_rows:
                connection.execute(insert(CHECKS), check_rows)
        return True

    def runs(self, limit: int | None = None) -> list[StoredRun]:
        """Return the last `limit` runs, newest first."""
        counting = select(CHECKS.c.run_id, CHECKS.c.status, func.count()).group_by(CHECKS.c.run_id, CHECKS.c.status)
        counts: dict[str, dict[str, int]] = {}
        for run_id, status, count in self._read(counting):
            counts.setdefault(run_id, {})[status] = count
        last = self._read(select(RUNS.c.id, RUNS.c.run).order_by(*_NEWEST_FIRST).limit(limit))
        return [StoredRun(decode_run(text), counts.get(run_id, {})) for run_id, text in last]

    def checks(self, series: str | None = None, limit: int | None = None) -> list[StoredCheck]:
        """Return the last `limit` records, of one series or of all; the newest run first, each in its order."""
        wanted = _RECORDS.order_by(*_NEWEST_FIRST, CHECKS.c.position).limit(limit)
        if series is not None:
            wanted = wanted.where(CHECKS.c.series == series)
        return [StoredCheck(decode_run(run), decode_record(record)) for run, record in self._read(wanted)]

    def records(self, run_id: str) -> list[Record]:
        """Return the records of one run, in their order."""
        wanted = select(CHECKS.c.record).where(CHECKS.c.run_id == run_id).order_by(CHECKS.c.position)
        return [decode_record(text) for (text,) in self._read(wanted)]

    def baseline(self, series: str, identity: Mapping[str, str] | None = None) -> Baseline | None:
        """Return the record of `series` that was accepted last, or ``None``.

        `identity` is that of the machine to compare with, see `Environment`; ``None`` for this one.
        """
        here = fingerprint().identity if identity is None else identity
        accepted = _RECORDS.join(ACCEPTED, ACCEPTED.c.check_id == CHECKS.c.id).where(CHECKS.c.series == series)
        found = self._read(accepted.order_by(ACCEPTED.c.id.desc()).limit(1))
        if not found:
            return None
        run, record = decode_run(found[0].run), decode_record(found[0].record)
        return Baseline(
            commit=run.commit or "unknown",
            drop=record.accuracy.drop if record.accuracy else None,
            speedup=record.latency.speedup if record.latency else None,
            candidate_p50_ms=record.latency.candidate_p50_ms if record.latency else None,
            same_identity=dict(run.environment.identity) == dict(here),
        )

    def _read(self, query: Select[*tuple[Any, ...]]) -> Sequence[Row[*tuple[Any, ...]]]:
        with storage_errors(self._shown, "read"), self._engine.connect() as connection:
            return connection.execute(query).all()


_RECORDS: Select[*tuple[Any, ...]] = select(RUNS.c.run, CHECKS.c.record).join(CHECKS, CHECKS.c.run_id == RUNS.c.id)


def open_store(place: str | Path) -> Store:
    """Open the history at `place`, a file or a database URL, creating it when it is not there.

    Raises
    ------
    HistoryError : it cannot be opened, or a newer version of this package wrote it; a damaged file stays as it is.
    """
    return Store(*open_engine(place))
