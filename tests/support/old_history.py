"""A history of version 1, written without the package: its tables as they were, in SQL that both databases take."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import create_engine, text

from pytest_quant.record import Record, Run, run_to_json

_TABLES = (
    "CREATE TABLE quant_schema (version INTEGER NOT NULL PRIMARY KEY)",
    'CREATE TABLE quant_runs (id VARCHAR NOT NULL PRIMARY KEY, started_at VARCHAR NOT NULL, "commit" VARCHAR, '
    "branch VARCHAR, run TEXT NOT NULL)",
    "CREATE INDEX ix_quant_runs_started_at ON quant_runs (started_at)",
    "CREATE TABLE quant_checks (id INTEGER NOT NULL PRIMARY KEY, run_id VARCHAR NOT NULL REFERENCES quant_runs (id) "
    "ON DELETE CASCADE, position INTEGER NOT NULL, series VARCHAR NOT NULL, status VARCHAR NOT NULL, "
    "record TEXT NOT NULL, UNIQUE (run_id, position))",
    "CREATE INDEX quant_checks_by_series ON quant_checks (series)",
    "CREATE TABLE quant_accepted (id INTEGER NOT NULL PRIMARY KEY, check_id INTEGER NOT NULL "
    "REFERENCES quant_checks (id) ON DELETE CASCADE)",
    "INSERT INTO quant_schema VALUES (1)",
)
_RUN = (
    'INSERT INTO quant_runs (id, started_at, "commit", branch, run) VALUES (:id, :started_at, :commit, :branch, :run)'
)
_CHECK = (
    "INSERT INTO quant_checks (id, run_id, position, series, status, record) "
    "VALUES (:id, :run_id, :position, :series, :status, :record)"
)


def write_version_1(url: str, runs: Sequence[tuple[Run, Sequence[Record]]]) -> None:
    """Create the tables and fill them."""
    number = 0
    with create_engine(url).begin() as connection:
        for statement in _TABLES:
            connection.execute(text(statement))
        for run, records in runs:
            document = json.loads(json.dumps(run_to_json(run, records)))
            written = document["run"]
            columns = {name: written[name] for name in ("id", "started_at", "commit", "branch")}
            connection.execute(text(_RUN), columns | {"run": json.dumps(written)})
            for position, check in enumerate(document["checks"]):
                number += 1
                place = {"id": number, "run_id": run.id, "position": position}
                columns = {"series": check["series"], "status": check["status"], "record": json.dumps(check)}
                connection.execute(text(_CHECK), place | columns)
