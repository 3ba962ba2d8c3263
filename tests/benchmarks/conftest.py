"""The history of 200 000 records that several benchmarks read."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.benchmarks.history_records import Checks, fill, make_commits, one_record, save


@dataclass(frozen=True, slots=True)
class Large:
    """The large history at `place`, the git repository whose commits it holds, and what made it."""

    place: Path
    root: Path
    commits: list[str]
    checks: Checks
    seconds: float


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Large:
    """Generated once, for all benchmarks."""
    folder = tmp_path_factory.mktemp("large")
    commits = make_commits(folder / "repository")
    run, record = one_record(folder)
    save(folder / "run.json", run, record)
    place, started = folder / "history.db", time.perf_counter()
    fill(place, folder / "run.json", commits)
    seconds = time.perf_counter() - started
    connection = sqlite3.connect(place)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return Large(place, folder / "repository", commits, Checks(run, record), seconds)
