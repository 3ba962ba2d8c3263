"""A history of many series with many points each: ``python -m tests.benchmarks.wide_history PLACE [SERIES POINTS]``.

The newest run is appended through the public API, with whole records. The runs before it are rows of the tables alone,
as charts read them: a million records would take 2 GB. The commits are one day apart; one series in ten became 8 %
slower 200 commits ago, and two in ten lost a point of their score.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.history.append import add_runs
from pytest_quant.history.connect import open_engine, writing
from pytest_quant.history.rows import run_row
from pytest_quant.history.schema import CHECKS
from pytest_quant.history.summaries import CheckSummary
from pytest_quant.record import Record, Run
from tests.unit.record.examples import RUN, a_check, a_record

SERIES, POINTS = 200, 5000

_NOISE = 0.01
_STEP = 0.08
_LATE = 200
_FIRST_DAY = datetime(2010, 1, 1, tzinfo=UTC)
_RUNS_AT_ONCE = 200
_TIMED = ("speedup", "speedup_low", "speedup_high"), ("candidate_p50_ms", "p50_low_ms", "p50_high_ms")
_SCORED = ("candidate", "drop", "drop_low", "drop_high")


def fill(place: str | Path, series: int = SERIES, points: int = POINTS) -> list[str]:
    """Write the history to `place`, a new file or an empty database, and return the keys of its series.

    Parameters
    ----------
    place : file or database URL.
    series : number of series.
    points : number of checks of each.
    """
    records = [_record(number) for number in range(series)]
    engine, _ = open_engine(place)
    with writing(engine) as connection:
        # Numbers of runs are those of time, and the newest one is the last.
        for start in range(0, points - 1, _RUNS_AT_ONCE):
            stop = min(start + _RUNS_AT_ONCE, points - 1)
            add_runs(connection, [(_run(number), []) for number in range(start, stop)])
        add_runs(connection, [(_run(points - 1), records)])
        rows: dict[Any, Any] = dict(connection.exec_driver_sql("SELECT id, number FROM quant_runs").all())
        numbers: dict[Any, Any] = dict(connection.exec_driver_sql("SELECT key, number FROM quant_series").all())
        runs = [int(rows[str(run_row(_run(number))["id"])]) for number in range(points - 1)]
        _insert(connection, _rows(records, runs, [int(numbers[record.series]) for record in records]))
    engine.dispose()
    return [record.series for record in records]


def _record(number: int) -> Record:
    nodeid = f"tests/test_models.py::test_model[{number:03}]"
    return a_record(replace(a_check(), nodeid=f"{nodeid}[ort-int8-static]", series_nodeid=nodeid))


def _run(number: int) -> Run:
    started = _FIRST_DAY + timedelta(days=number)
    return replace(RUN, id=f"{number:06}", started_at=started.isoformat(), commit=f"{number:040x}")


def _rows(records: Sequence[Record], runs: Sequence[int], series: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of all checks but those of the newest run, run by run."""
    random = np.random.default_rng(0)
    summaries = [CheckSummary.of(RUN, record) for record in records]
    for at, run in enumerate(runs):
        started_at = str(run_row(_run(at))["started_at"])
        late = at >= len(runs) - _LATE
        factors = np.exp(_NOISE * random.standard_normal((len(records), 2))).tolist()
        for position, (summary, (fast, slow)) in enumerate(zip(summaries, factors, strict=True)):
            step = 1.0 + _STEP if late and position % 10 == 0 else 1.0
            timed = zip(_TIMED, (fast / step, slow * step), strict=True)
            figures = {name: getattr(summary, name) * factor for names, factor in timed for name in names}
            if late and position % 5 == 1:
                worse = {name: -1.0 if name == "candidate" else 1.0 for name in _SCORED}
                figures |= {name: getattr(summary, name) + change for name, change in worse.items()}
            changed = replace(summary, **figures)
            yield run, position, series[position], started_at, summary.status.value, changed.figures


def _insert(connection: Any, rows: Iterator[tuple[Any, ...]]) -> None:
    """Insert rows through the driver, which is the only thing that takes a million of them in seconds."""
    cursor = connection.connection.cursor()
    columns = ", ".join(f'"{column.name}"' for column in CHECKS.c)
    if connection.dialect.name == "postgresql":
        with cursor.copy(f"COPY quant_checks ({columns}) FROM STDIN") as target:
            for row in rows:
                target.write_row(row)
    else:
        marks = ", ".join("?" * len(CHECKS.c))
        cursor.executemany(f"INSERT INTO quant_checks ({columns}) VALUES ({marks})", rows)  # noqa: S608 - our columns


if __name__ == "__main__":
    fill(sys.argv[1], *map(int, sys.argv[2:]))
